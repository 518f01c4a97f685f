"""A TCP proxy that can lose the answers of a server: what a client sends arrives, what comes back does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class DeafProxy:
    """Forwards to `port`. While `deaf` is set, answers are dropped; `recover` makes all connections anew."""

    port: int
    own_port: int = 0
    deaf: bool = False
    trigger: bytes = b""
    """It becomes deaf when a client sends these bytes, once."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def recover(self) -> None:
        self.deaf = False
        self.cut()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, back_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pass(reader, back_writer, to=True), self._pass(back_reader, writer, to=False))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if to and self.trigger and self.trigger in data:
                    self.deaf, self.trigger = True, b""
                if self.deaf and not to:
                    continue
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def deaf_proxy(port: int) -> AsyncIterator[DeafProxy]:
    proxy = DeafProxy(port)
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(proxy.serve(reader, writer))
        tasks.add(task)
        await asyncio.gather(task, return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.own_port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await asyncio.gather(*tasks, return_exceptions=True)
