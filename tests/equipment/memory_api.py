"""An API server in memory that stands in for the client: documents, versions, preconditions, and a log of writes.

Enough for one reconcile at a time, without server or Go. It validates nothing and runs no controllers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from equipment.builders import Builder
from equipment.builders.base import LONG_AGO
from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube import AlreadyExists, Conflict, Manager, NotFound, Query, Resource
from gpu_runtime.kube.client import document_of
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.decoding import Listing
from gpu_runtime.kube.errors import ApiError

T = TypeVar("T", bound=Object)
Document = dict[str, Any]


class MemoryApi:
    """Objects by kind and key. `failures` names the writes that are refused: `{"create Deployment u": error}`."""

    def __init__(self, clock: Clock, failures: Mapping[str, Exception] | None = None) -> None:
        self.objects: dict[tuple[str, Key], Document] = {}
        self.writes: list[str] = []
        """Writes that were asked for, refused ones as well."""
        self.changes = 0
        """How many writes changed something."""
        self.logs: dict[str, str] = {}
        """Logs of pods by the pod's name. A pod without one has a log that cannot be read."""
        self._clock = clock
        self._failures = failures or {}
        self._version = 100

    def put(self, builder: Builder) -> None:
        """An object that was there before, with what the server fills in."""
        document = builder.document()
        meta = document["metadata"]
        filled = {"uid": f"{meta['name']}-uid", "generation": 1, "creationTimestamp": LONG_AGO, **meta}
        self._store({**document, "metadata": filled})

    def find(self, kind: str, name: str) -> Document | None:
        """The one object of this kind and name."""
        found = [each for (its, key), each in self.objects.items() if its == kind and key.name == name]
        assert len(found) < 2, f"{kind} {name} is in several namespaces"
        return found[0] if found else None

    def of_kind(self, kind: str) -> list[Document]:
        return [document for (its, _), document in self.objects.items() if its == kind]

    def fill(self, manager: Manager) -> None:
        """Makes the caches of a manager show what is there."""
        for query, reflector in manager._reflectors.items():
            reflector.store.replace(_matching(self.objects, query), str(self._version))

    async def get(self, resource: Resource[T], key: Key) -> T:
        return _decoded(resource, self._live(resource, key))

    async def list(self, query: Query[T]) -> Listing[T]:
        return Listing(_matching(self.objects, query), [], str(self._version))

    async def create(self, resource: Resource[T], obj: Object) -> T:
        document = document_of(resource, obj)
        key = _key(document)
        self._write(f"create {resource.kind} {key.name}")
        if (resource.kind, key) in self.objects:
            raise refused(AlreadyExists, 409, f"{key} exists")
        filled = {"uid": f"new-{key.name}-uid", "generation": 1, "creationTimestamp": self._clock.now().isoformat()}
        return _decoded(resource, self._store({**document, "metadata": {**document["metadata"], **filled}}))

    async def replace(self, resource: Resource[T], obj: Object, *, subresource: str = "") -> T:
        assert subresource == "status", "reconcilers replace nothing but a status"
        document = document_of(resource, obj)
        self._write(f"status {resource.kind} {_key(document).name}")
        live = self._live(resource, _key(document))
        _guard(live, document["metadata"])
        return _decoded(resource, self._store({**live, "status": document.get("status", {})}))

    async def patch(self, resource: Resource[T], key: Key, patch: Mapping[str, Any]) -> T:
        self._write(f"patch {resource.kind} {key.name}")
        live = self._live(resource, key)
        _guard(live, patch.get("metadata", {}))
        merged = _merge(live, msgspec.to_builtins(patch))
        if merged.get("spec") != live.get("spec"):
            merged["metadata"]["generation"] += 1
        if merged["metadata"].get("deletionTimestamp") and not merged["metadata"].get("finalizers"):
            return _decoded(resource, self._remove(resource, key, merged))
        return _decoded(resource, self._store(merged))

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> None:
        self._write(f"delete {resource.kind} {key.name}")
        live = self._live(resource, key)
        _guard(live, {"uid": uid, "resourceVersion": resource_version})
        if live["metadata"].get("finalizers"):
            self._store({**live, "metadata": {**live["metadata"], "deletionTimestamp": self._clock.now().isoformat()}})
        else:
            self._remove(resource, key, live)

    async def request(self, method: str, path: str, *, subject: str, parameters: Mapping[str, str]) -> bytes:
        """The log of a pod, and nothing else."""
        name = path.removesuffix("/log").rpartition("/")[2]
        assert (method, path.endswith("/log")) == ("GET", True), path
        if name not in self.logs:
            raise refused(NotFound, 404, subject)
        return "".join(self.logs[name].splitlines(keepends=True)[-int(parameters["tailLines"]) :]).encode()

    def _remove(self, resource: Resource[Any], key: Key, last: Document) -> Document:
        del self.objects[resource.kind, key]
        self.changes += 1
        return last

    def _write(self, what: str) -> None:
        if not what.startswith("create Event "):  # tests look at events themselves
            self.writes.append(what)
        if what in self._failures:
            raise self._failures[what]

    def _live(self, resource: Resource[Any], key: Key) -> Document:
        try:
            return self.objects[resource.kind, key]
        except KeyError:
            raise refused(NotFound, 404, f"{resource.kind} {key} is not there") from None

    def _store(self, document: Document) -> Document:
        self._version += 1
        self.changes += 1
        stored = copy.deepcopy(document)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.objects[stored["kind"], _key(stored)] = stored
        return stored


def _matching(objects: Mapping[tuple[str, Key], Document], query: Query[T]) -> list[T]:
    return [
        _decoded(query.resource, document)
        for (kind, key), document in objects.items()
        if kind == query.resource.kind
        and query.namespace in ("", key.namespace)
        and _selected(document["metadata"].get("labels", {}), query.labels)
        and _has_field(document, query.fields)
    ]


def refused(kind: type[ApiError], code: int, message: str) -> ApiError:
    return kind(code, kind.__name__, message, causes=[], retry_after=None)


def _selected(labels: Mapping[str, str], selector: str) -> bool:
    """For the selectors that we use: `key=value` and `key`, all that the commas separate."""
    pairs = [each.partition("=") for each in selector.split(",") if each]
    return all(name in labels and value in ("", labels[name]) for name, _, value in pairs)


def _has_field(document: Document, selector: str) -> bool:
    """For selectors of one field, such as `metadata.name=x`."""
    path, _, value = selector.partition("=")
    found: Any = document
    for name in path.split(".") if selector else ():
        found = found.get(name, {})
    return not selector or bool(found == value)


def _guard(live: Document, wanted: Mapping[str, Any]) -> None:
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != live["metadata"][field]:
            raise refused(Conflict, 409, f"{_key(live)} has another {field}")


def _key(document: Document) -> Key:
    return Key(document["metadata"].get("namespace", ""), document["metadata"]["name"])


def _decoded(resource: Resource[T], document: Document) -> T:
    return msgspec.convert(copy.deepcopy(document), resource.struct)


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
