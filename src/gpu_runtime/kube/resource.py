"""A kind: where it is served and the Struct that its objects are read into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar
from urllib.parse import quote

from gpu_runtime.api.kind import Kind
from gpu_runtime.api.meta.object import Object

T = TypeVar("T", bound=Object)
V = TypeVar("V", bound=Object)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind as the API serves it, read into `struct`.

    A Struct may name fewer fields than the kind has: what it leaves out is not decoded, cached or compared.
    """

    group: str
    version: str
    kind: str
    plural: str
    struct: type[T]
    namespaced: bool = True

    @classmethod
    def of(cls, kind: Kind[T]) -> Resource[T]:
        """A kind of ours, read into its own Struct."""
        return Resource(kind.group, kind.version, kind.kind, kind.plural, kind.type)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """`deployments.apps`, as kubectl and error messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def view(self, struct: type[V]) -> Resource[V]:
        """The same kind read into another Struct, usually a smaller one for a cache."""
        return replace(self, struct=struct)  # type: ignore[arg-type, return-value]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of a subresource."""
        path = f"{self._root}/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else self._root
        parts = [path, self.plural]
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    @cached_property
    def _root(self) -> str:
        """Where the paths of this version begin."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
