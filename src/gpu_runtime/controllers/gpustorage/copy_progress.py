"""How far a copy is, read from the log of its pod."""

from __future__ import annotations

import asyncio

from gpu_runtime.api.meta.object import Key
from gpu_runtime.controllers.gpustorage.resources.prepare_job import CONTAINER
from gpu_runtime.files.progress import Progress, parse_progress
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.kube.pod_log import last_lines

EVERY_SECONDS = 5.0
ANSWER_SECONDS = 3.0  # a node that does not answer must not block the worker
LINES = 20  # a copy may write lines about skipped files between two lines of progress


class CopyProgress:
    """Reads each log at most every 5 seconds, however often the storage is reconciled."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._last_read: dict[str, tuple[float, Progress | None]] = {}
        """By UID of the storage: when its log was read last, and the progress that it showed."""

    async def of(self, storage_uid: str, pod: Key) -> Progress | None:
        """The last known progress. None when the log shows none, or cannot be read now."""
        read_at, known = self._last_read.get(storage_uid, (float("-inf"), None))
        now = self._clock.monotonic()
        if now - read_at >= EVERY_SECONDS:
            known = await self.read(pod) or known
            self._last_read[storage_uid] = now, known
        return known

    async def read(self, pod: Key) -> Progress | None:
        """The progress that the log shows now."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                lines = await last_lines(self._client, pod, CONTAINER, LINES)
        except (KubeError, TimeoutError):
            return None
        parsed = [progress for line in lines if (progress := parse_progress(line)) is not None]
        return parsed[-1] if parsed else None

    def forget(self, storage_uid: str) -> None:
        self._last_read.pop(storage_uid, None)
