"""Remembers created objects until the cache shows them, so that a lagging cache never causes a second creation."""

from __future__ import annotations

from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.store import Store, version_number

T = TypeVar("T", bound=Object)


class Expectations(Generic[T]):
    """For children with generated names, where AlreadyExists cannot prevent a second creation.

    Versions are compared, not names: a child that was created and deleted while no watch ran never appears in the
    cache, but a cache that has reached a later version has also seen its deletion.
    """

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._awaited: dict[Key, int] = {}

    def expect(self, owner: Key, created: Object) -> None:
        """`owner` must not be acted on before the cache has caught up with this creation."""
        version = version_number(created.metadata.resourceVersion)
        self._awaited[owner] = max(version, self._awaited.get(owner, 0))

    def met(self, owner: Key) -> bool:
        """True when the cache shows everything that was created for `owner`."""
        awaited = self._awaited.get(owner)
        if awaited is not None and self._store.version >= awaited:
            del self._awaited[owner]
            awaited = None
        return awaited is None
