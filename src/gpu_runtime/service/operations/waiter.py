"""Waits for another executor of the same operation without polling."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.store import Delta, Store, version_number


class OperationWaiter:
    """Waits until an operation leaves the cache of unfinished operations."""

    def __init__(self, unfinished: Store[Operation]) -> None:
        self._unfinished = unfinished
        self._waiting: dict[Key, set[asyncio.Event]] = defaultdict(set)
        unfinished.subscribe(self._changed)

    async def wait(self, record: Operation, seconds: float) -> bool:
        """Whether an unfinished record was finished within `seconds`."""
        key = record.metadata.key
        caught_up = self._unfinished.version >= version_number(record.metadata.resourceVersion)
        if caught_up and self._unfinished.get(key) is None:
            return True
        finished = asyncio.Event()
        self._waiting[key].add(finished)
        try:
            async with asyncio.timeout(seconds):
                await finished.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting[key].discard(finished)
            if not self._waiting[key]:
                del self._waiting[key]
        return True

    def _changed(self, delta: Delta[Operation]) -> None:
        if delta.new is None:
            for finished in self._waiting.get(delta.object.metadata.key, ()):
                finished.set()
