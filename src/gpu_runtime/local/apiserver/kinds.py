"""The kinds that are served: where, under which names, with which schema and rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from gpu_runtime.local.apiserver.errors import Cause, Subject
from gpu_runtime.local.apiserver.records import Object, Record, encode
from gpu_runtime.local.apiserver.schema import Node, Reading
from gpu_runtime.local.apiserver.strategy import Strategy


class Format(Protocol):
    """How documents of a kind are read from clients and finished for storage."""

    def read(self, document: Object, reading: Reading) -> Object: ...

    def complete(self, obj: Object) -> Object: ...

    def stands(self, version: int) -> bool:
        """Whether an object of this version is served as it is stored."""
        ...

    def view(self, obj: Object) -> Object:
        """A stored object as clients see it; may change its argument."""
        ...

    def restored(self, obj: Object) -> Object:
        """An object that `view` returned, in the form that `read` returns."""
        ...

    def choice_causes(self, obj: Object) -> list[Cause]:
        """Causes for enum values outside of the status that their fields do not allow."""
        ...


class BuiltinFormat:
    """Documents of a built-in kind follow Go's types."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def read(self, document: Object, reading: Reading) -> Object:
        found: Object = self.node.read(document, "", reading)
        for name in ("apiVersion", "kind"):
            found.pop(name, None)
        found.setdefault("metadata", {})
        return found

    def complete(self, obj: Object) -> Object:
        found: Object = self.node.complete(obj)
        return found

    def stands(self, version: int) -> bool:  # noqa: ARG002
        return True

    def view(self, obj: Object) -> Object:
        return obj

    def restored(self, obj: Object) -> Object:
        return self.read(obj, Reading())

    def choice_causes(self, obj: Object) -> list[Cause]:
        return list(self.node.choice_causes({key: value for key, value in obj.items() if key != "status"}, ""))


class Column(msgspec.Struct, frozen=True):
    """An additional printer column of a custom kind."""

    name: str
    type: str
    jsonPath: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    format: Format
    strategy: Strategy
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    custom: bool = False
    columns: tuple[Column, ...] = ()
    scale: dict[str, str] | None = None
    schema: dict[str, Any] | None = None
    resource: str = field(init=False)
    subject: Subject = field(init=False)
    prefix: bytes = field(init=False)

    def __post_init__(self) -> None:
        subject = Subject(self.group, self.plural, self.kind)
        object.__setattr__(self, "subject", subject)
        object.__setattr__(self, "resource", subject.qualified)
        head = f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'
        object.__setattr__(self, "prefix", head.encode())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.namespaced else name

    def prefix_of(self, namespace: str) -> str:
        return f"{namespace}/" if self.namespaced and namespace else ""

    def wire(self, record: Record) -> bytes:
        """A stored object as a client reads it."""
        body = record.body if self.format.stands(record.version) else encode(self.object(record))
        return self.prefix + body[1:]

    def object(self, record: Record) -> Object:
        """A stored object as this version shows it, without apiVersion and kind; a fresh copy."""
        found = record.object()
        return found if self.format.stands(record.version) else self.format.view(found)

    def document(self, record: Record) -> Object:
        return {"apiVersion": self.api_version, "kind": self.kind, **self.object(record)}


class Registry:
    """All kinds that are served at this moment; custom ones come and go."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}

    def add(self, kind: Kind) -> None:
        self._by_path[(kind.group, kind.version, kind.plural)] = kind

    def remove(self, group: str, plural: str) -> None:
        for path in [path for path in self._by_path if path[0] == group and path[2] == plural]:
            del self._by_path[path]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def versions(self, group: str) -> list[str]:
        """The served versions of a group, the one that clients should prefer first."""
        return list(dict.fromkeys(kind.version for kind in self if kind.group == group))

    def groups(self) -> list[str]:
        return list(dict.fromkeys(kind.group for kind in self))

    def of(self, group: str, version: str) -> list[Kind]:
        found = [kind for kind in self if kind.group == group and kind.version == version]
        return sorted(found, key=lambda kind: kind.plural)

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._by_path.values()))
