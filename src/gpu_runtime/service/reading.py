"""Reads for requests: a positive answer may come from a cache, a negative one is confirmed by one live read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store, version_number
from gpu_runtime.rest.errors import Missing, Unavailable
from gpu_runtime.service.cluster import Cluster

T = TypeVar("T", bound=Object)
MOST_REMEMBERED = 10_000


class Reader(Generic[T]):
    """Reads one kind, by key or all objects. Never returns a cached object older than this process's own write."""

    def __init__(self, cluster: Cluster, resource: Resource[T], store: Store[T]) -> None:
        self.store = store
        self._cluster = cluster
        self._resource = resource
        self._written: dict[Key, int] = {}
        self._deleted: dict[Key, str] = {}

    async def get(self, key: Key) -> T | None:
        return self.cached(key) or await self.live(key)

    def cached(self, key: Key) -> T | None:
        """The cached object; None if this process wrote or deleted a newer version."""
        cached = self.store.get(key)
        return cached if cached is not None and self._current(key, cached) else None

    async def has(self, key: Key, uid: str) -> bool:
        """Whether the object with this UID exists. The cache may be out of date, so the server confirms a no."""
        cached = self.cached(key)
        if cached is not None and cached.metadata.uid == uid:
            return True
        live = await self.live(key)
        return live is not None and live.metadata.uid == uid

    async def live(self, key: Key) -> T | None:
        try:
            return await self._cluster.get(self._resource, key)
        except NotFound:
            return None

    def all(self) -> Iterator[T]:
        """All cached objects. Unavailable before the first complete list: an empty answer would be wrong."""
        if not self.store.version:
            raise Unavailable(
                f"{self._resource.plural} are not known yet: the cluster has not answered since this process started"
            )
        return iter(self.store)

    def wrote(self, obj: T) -> None:
        """Records a write of this process: the cached object is not used until the cache has reached this version."""
        if len(self._written) >= MOST_REMEMBERED:
            self._written = {key: version for key, version in self._written.items() if version > self.store.version}
        self._written[obj.metadata.key] = version_number(obj.metadata.resourceVersion)
        self._deleted.pop(obj.metadata.key, None)

    def deleted(self, obj: T) -> None:
        """Records a deletion by this process."""
        if len(self._deleted) >= MOST_REMEMBERED:
            self._deleted = {key: uid for key, uid in self._deleted.items() if self.store.get(key) is not None}
        self._deleted[obj.metadata.key] = obj.metadata.uid

    def _current(self, key: Key, cached: T) -> bool:
        if self._deleted.get(key) == cached.metadata.uid and cached.metadata.deletionTimestamp is None:
            return False
        if self._written.get(key, 0) <= self.store.version:
            self._written.pop(key, None)
            return True
        return False


class Namespaces:
    """Checks that namespaces exist."""

    def __init__(self, cluster: Cluster, store: Store[Namespace]) -> None:
        self._reader = Reader(cluster, NAMESPACES, store)

    async def require(self, name: str) -> str:
        """Returns the name; Missing if the namespace does not exist or is being deleted."""
        key = Key("", name)
        namespace = self._reader.cached(key)
        if not _stays(namespace):  # the cache may be out of date
            namespace = await self._reader.live(key)
        if not _stays(namespace):
            gone = "is being deleted" if namespace is not None else "does not exist"
            raise Missing("namespace", f"namespace {name} {gone}: create it, or name another one")
        return name


def _stays(namespace: Namespace | None) -> bool:
    return namespace is not None and namespace.metadata.deletionTimestamp is None
