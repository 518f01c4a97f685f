"""What a client of one kind may observe. Pure; the machine beside it checks that the server agrees."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Thing:
    """One object: what clients wrote, and what the server adds that they can count on."""

    value: str
    finalizers: tuple[str, ...]
    deleting: bool = False
    version: str = ""
    uid: str = ""


@dataclass
class Model:
    """All objects, and every change in order: the versions grow, and a watch from any of them sees the rest."""

    things: dict[str, Thing] = field(default_factory=dict)
    log: list[tuple[str, str, Thing]] = field(default_factory=list)

    def create(self, name: str, value: str, finalizers: tuple[str, ...]) -> int:
        if name in self.things:
            return 409
        self._put("ADDED", name, Thing(value, finalizers))
        return 201

    def write(self, name: str, value: str, finalizers: tuple[str, ...], version: str) -> int:
        """An update: guarded by a version unless it is empty; one that changes nothing is no change."""
        thing = self.things.get(name)
        if thing is None:
            return 404
        if version not in ("", thing.version):
            return 409
        if thing.deleting and not set(finalizers) <= set(thing.finalizers):
            return 422  # a deleted object takes no new finalizer
        if thing.deleting and not finalizers:
            self._remove(name, thing)  # the write that ends an object is seen by nobody else
        elif (value, finalizers) != (thing.value, thing.finalizers):
            self._put("MODIFIED", name, replace(thing, value=value, finalizers=finalizers))
        return 200

    def delete(self, name: str, uid: str) -> int:
        thing = self.things.get(name)
        if thing is None:
            return 404
        if uid not in ("", thing.uid):
            return 409
        if not thing.finalizers:
            self._remove(name, thing)
        elif not thing.deleting:
            self._put("MODIFIED", name, replace(thing, deleting=True))
        return 200

    def _put(self, event: str, name: str, thing: Thing) -> None:
        self.things[name] = replace(thing, version="")
        self.log.append((event, name, self.things[name]))

    def _remove(self, name: str, thing: Thing) -> None:
        del self.things[name]
        self.log.append(("DELETED", name, replace(thing, version="")))
