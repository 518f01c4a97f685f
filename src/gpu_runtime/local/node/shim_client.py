"""The agent's side of a pod's shim: requests with answers, and the states it announces."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpu_runtime.local.node.shim.sandbox import SOCKET
from gpu_runtime.local.node.shim.shapes import ContainerState


class ShimGone(Exception):
    """The pod's shim has ended, and with it every container of the pod."""


class ShimRefused(Exception):
    """The shim could not do what was asked; the message says why."""


class Message(msgspec.Struct):
    """An answer (`id`) or an announcement (`event`)."""

    id: int = 0
    event: str = ""
    error: str = ""
    container: str = ""
    attempt: int = 0
    state: ContainerState | None = None
    exitCode: int = 0
    output: str = ""
    runs: list[tuple[str, int, ContainerState | None]] = []


class ShimClient:
    """A connection to one shim: `state_changed` is called for every state that it announces, `gone` at its end."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        state_changed: Callable[[str, int, ContainerState], None],
        gone: Callable[[], None],
    ) -> None:
        self._reader, self._writer, self._state_changed, self._gone = reader, writer, state_changed, gone
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._alive = True
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def connect(
        cls, pod: Path, state_changed: Callable[[str, int, ContainerState], None], gone: Callable[[], None]
    ) -> ShimClient:
        folder = os.open(pod, os.O_PATH | os.O_CLOEXEC)
        try:
            # By descriptor, because the whole path may be longer than a socket's name can be.
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{SOCKET}", limit=1 << 20)
        finally:
            os.close(folder)
        return cls(reader, writer, state_changed, gone)

    async def _listen(self) -> None:
        try:
            while line := await self._reader.readline():
                message = msgspec.json.decode(line, type=Message)
                if message.event and message.state:
                    self._state_changed(message.container, message.attempt, message.state)
                elif (waiting := self._waiting.pop(message.id, None)) and not waiting.done():
                    waiting.set_result(message)
        except (OSError, msgspec.DecodeError):
            pass
        finally:
            self._alive = False
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ShimGone())
            self._waiting.clear()
            self._writer.close()
            self._gone()

    async def ask(self, do: str, **arguments: Any) -> Message:
        """Sends one request and waits for its answer."""
        if not self._alive:
            raise ShimGone
        number = next(self._ids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(msgspec.json.encode({"id": number, "do": do, **arguments}) + b"\n")
        message = await answer
        if message.error:
            raise ShimRefused(message.error)
        return message

    async def close(self) -> None:
        """Lets go of the shim; the pod runs on."""
        self._listening.cancel()
        await asyncio.wait([self._listening])
