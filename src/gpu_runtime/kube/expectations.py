"""Remembers what we created until the cache shows it, so that a lagging cache never makes us create it twice."""

from __future__ import annotations

from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.store import Store, version_number

T = TypeVar("T", bound=Object)


class Expectations(Generic[T]):
    """For children under generated names, where AlreadyExists cannot tell that one is there already.

    Versions are compared, not names: a child that was created and deleted while no watch ran would be waited for in
    vain, but a cache that has seen a later version has seen its end as well.
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
