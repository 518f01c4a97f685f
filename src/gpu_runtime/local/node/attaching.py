"""What a container's program says from now on, line by line, out of the log that its shim writes.

Programs have no input here (`stdin: true` gets none), so there is nothing to write and no terminal to resize.
"""

from __future__ import annotations

import asyncio

from gpu_runtime.local.apiserver.shells import ShellRequest
from gpu_runtime.local.node.agent.logs import POLL_SECONDS, Tail, has_ended, shown
from gpu_runtime.local.node.records import PodFiles


class Lines:
    """One stream's share; holds one batch, so a client that does not read delays the reading of the log."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def read(self) -> bytes:
        return await self._queue.get()

    async def put(self, data: bytes) -> None:
        await self._queue.put(data)


class Attached:
    """One run of a container, seen from outside; a `Shell`."""

    def __init__(self, files: PodFiles, request: ShellRequest, attempt: int) -> None:
        self._files, self._container, self._attempt = files, request.container, attempt
        self._tail = Tail(files.log(request.container, attempt))
        self._tail.read()  # what was said before
        names = {"stdout": request.stdout, "stderr": request.stderr}
        self.outputs = {name: Lines() for name, wanted in names.items() if wanted}
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            # Asked before reading: what an ended container has written is complete.
            ended = has_ended(self._files, self._container, self._attempt)
            entries = self._tail.read()
            for name, lines in self.outputs.items():
                own = [entry for entry in entries if entry.split(b" ", 2)[1] == name.encode()]
                if said := b"".join(shown(entry, timestamps=False) for entry in own):
                    await lines.put(said)
            if ended and not entries:
                break
            if not entries:
                await asyncio.sleep(POLL_SECONDS)
        for lines in self.outputs.values():
            await lines.put(b"")

    async def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def end_input(self) -> None: ...

    def resize(self, width: int, height: int) -> None: ...

    async def ended(self) -> int:
        await asyncio.wait([self._following])
        return 0

    def close(self) -> None:
        self._following.cancel()
        self._tail.close()
