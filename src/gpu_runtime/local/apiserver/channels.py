"""A command's streams over one WebSocket: `v5.channel.k8s.io`, and v4, which cannot say that one stream has ended.

Each message begins with the number of its channel.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from aiohttp import WSMsgType, web

from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.records import encode
from gpu_runtime.local.apiserver.shells import Readable, Shell

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
OUTPUTS = {"stdout": STDOUT, "stderr": STDERR}
LARGEST_MESSAGE = 1 << 20
CLOSE_SECONDS = 5.0


class Size(msgspec.Struct):
    """The size of a terminal, as the client sends it. `sensible`: it fits into the kernel's 16-bit numbers."""

    Width: int = msgspec.field(default=0)
    Height: int = msgspec.field(default=0)

    @property
    def sensible(self) -> bool:
        return 0 < self.Width < 1 << 16 and 0 < self.Height < 1 << 16


def outcome(code: int) -> bytes:
    """The last message about a command: a Status with its exit code."""
    if code == 0:
        return encode({"metadata": {}, "status": "Success"})
    message = f"command terminated with non-zero exit code: exit status {code}"
    details = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    return encode(
        {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode", "details": details}
    )


class Channels:
    """One client's WebSocket."""

    def __init__(self, protocol: str) -> None:
        self.socket = web.WebSocketResponse(protocols=(protocol,), compress=False, max_msg_size=LARGEST_MESSAGE)
        self._half_close = protocol == V5

    async def open(self, request: web.BaseRequest) -> None:
        await self.socket.prepare(request)

    async def run(self, shell: Shell) -> None:
        """Copies all streams until the command has ended and its output is sent. Ends it if the client goes."""
        listening = asyncio.create_task(self._listen(shell))
        speaking = asyncio.create_task(self._speak(shell))
        try:
            await asyncio.wait((listening, speaking), return_when=asyncio.FIRST_COMPLETED)
            if speaking.done() and not speaking.cancelled() and speaking.exception() is None:
                await self._stop(listening)
                await self.finish(outcome(speaking.result()))
        finally:
            # Tasks first: none of them may still wait for a file that `close` closes.
            await self._stop(listening, speaking)
            shell.close()

    async def fail(self, status: Status) -> None:
        """Sends the error over the WebSocket: after the upgrade it is too late for an HTTP status."""
        await self.finish(encode(status.wire()))

    async def finish(self, last: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self.socket.send_bytes(bytes([ERROR]) + last)
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.socket.close()

    async def _stop(self, *tasks: asyncio.Task[None] | asyncio.Task[int]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _speak(self, shell: Shell) -> int:
        async with asyncio.TaskGroup() as group:
            for name, stream in shell.outputs.items():
                group.create_task(self._copy(OUTPUTS[name], stream))
            ended = group.create_task(shell.ended())
        return ended.result()

    async def _copy(self, channel: int, stream: Readable) -> None:
        """Reads more only when the client has room: a slow client makes the command wait and uses no memory here."""
        head = bytes([channel])
        while data := await stream.read():
            await self.socket.send_bytes(head + data)

    async def _listen(self, shell: Shell) -> None:
        """Handles the client's messages until it is gone."""
        async for message in self.socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == STDIN and data:
                await shell.write(data)
            elif channel == CLOSE and self._half_close and data == bytes([STDIN]):
                shell.end_input()
            elif channel == RESIZE:
                self._resize(shell, data)

    def _resize(self, shell: Shell, data: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError, OSError):
            size = msgspec.json.decode(data, type=Size)
            if size.sensible:
                shell.resize(size.Width, size.Height)
