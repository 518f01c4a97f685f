"""Asynchronous reads and writes of descriptors, without a buffer of our own: a slow reader makes the writer wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

CHUNK = 1 << 15


class Descriptor:
    """A pipe's end, a terminal or a socket."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self.number = number

    async def read(self) -> bytes:
        """At least one byte; b"" at the end. A terminal reports its end as an error."""
        while self.number >= 0:
            try:
                return os.read(self.number, CHUNK)
            except BlockingIOError:
                await readable(self.number)
            except OSError:
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Returns when everything is written; OSError when the other end is closed."""
        rest = memoryview(data)
        while rest and self.number >= 0:
            try:
                rest = rest[os.write(self.number, rest) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _event(self.number, loop.add_writer, loop.remove_writer)

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)


class Stream(Descriptor):
    """A connected socket; each direction can be closed on its own."""

    def end_input(self) -> None:
        if self.number < 0:
            return
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.number)) as same:
            same.shutdown(socket.SHUT_WR)


async def readable(number: int) -> None:
    loop = asyncio.get_running_loop()
    await _event(number, loop.add_reader, loop.remove_reader)


async def _event(number: int, watch: Callable[..., Any], forget: Callable[[int], Any]) -> None:
    happened = asyncio.Event()
    watch(number, happened.set)
    try:
        await happened.wait()
    finally:
        forget(number)
