"""`kubectl port-forward`: connections to a pod's ports, each a pair of SPDY streams, all inside one WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from gpu_runtime.local.apiserver import spdy
from gpu_runtime.local.apiserver.shells import CannotConnect, Connection, NotRunning

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
LARGEST_MESSAGE = 1 << 21
WAITING_FRAMES = 32  # when so many frames wait for the pod to read them, the client has to wait
MOST_STREAMS = 1024

Connect = Callable[[int], Awaitable[Connection]]


@dataclass
class Pair:
    """One connection: the numbers of its two streams, and `waiting`, the data for the pod; b"" marks its end."""

    port: int
    errors: int = 0
    data: int = 0
    waiting: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(WAITING_FRAMES))
    work: asyncio.Task[None] | None = None


class Forwarding:
    """One client's WebSocket and the connections that it asks for."""

    def __init__(self, pod: str, connect: Connect) -> None:
        self.socket = web.WebSocketResponse(protocols=(PROTOCOL,), compress=False, max_msg_size=LARGEST_MESSAGE)
        self._pod, self._connect = pod, connect
        self._encoder, self._decoder = spdy.Encoder(), spdy.Decoder()
        self._pairs: dict[str, Pair] = {}
        self._streams: dict[int, Pair] = {}

    async def open(self, request: web.BaseRequest) -> None:
        await self.socket.prepare(request)

    async def run(self) -> None:
        """Serves the client until it goes or sends an invalid frame."""
        try:
            async for message in self.socket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._decoder.feed(message.data):
                        await self._handle(frame)
        except (spdy.BadFrame, ConnectionError):
            await self.socket.close(code=1002)
        finally:
            work = [pair.work for pair in self._streams.values() if pair.work]
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _handle(self, frame: spdy.Frame) -> None:
        if frame.kind == spdy.SYN_STREAM:
            await self._open_stream(frame)
        elif frame.kind == spdy.PING and frame.stream % 2:
            await self.socket.send_bytes(spdy.ping(frame.stream))
        elif pair := self._streams.get(frame.stream):
            if frame.kind == spdy.RST_STREAM and pair.work:
                pair.work.cancel()
            elif frame.kind == 0 and frame.stream == pair.data:
                # Frames are handled in order, so a connection whose pod does not read delays the client's others.
                if frame.data:
                    await pair.waiting.put(frame.data)
                if frame.last:
                    await pair.waiting.put(b"")

    async def _open_stream(self, frame: spdy.Frame) -> None:
        number, headers = frame.stream, frame.headers
        kind, port = headers.get("streamtype"), headers.get("port", "")
        if kind not in ("data", "error") or not port.isdecimal() or len(self._streams) >= MOST_STREAMS:
            await self.socket.send_bytes(spdy.reset(number, spdy.REFUSED))
            return
        await self.socket.send_bytes(self._encoder.reply(number))
        pair = self._pairs.setdefault(headers.get("requestid", port), Pair(int(port)))
        self._streams[number] = pair
        if kind == "data":
            pair.data = number
        else:
            pair.errors = number
        if pair.data and pair.errors:
            del self._pairs[headers.get("requestid", port)]
            pair.work = asyncio.create_task(self._forward(pair))

    async def _forward(self, pair: Pair) -> None:
        try:
            await self._carry(pair, await self._connect(pair.port))
        except (NotRunning, CannotConnect) as error:
            why = (
                f'failed to connect to localhost:{pair.port} inside namespace "{self._pod}",'
                f" IPv4: dial tcp4 127.0.0.1:{pair.port}: connect: {error}"
                if isinstance(error, CannotConnect)
                else "sandbox is not running"
            )
            text = f"error forwarding port {pair.port} to pod {self._pod}, uid : failed to execute portforward: {why}"
            await self._say(spdy.data(pair.errors, text.encode()))
        finally:
            for stream in (pair.data, pair.errors):
                self._streams.pop(stream, None)
            while not pair.waiting.empty():  # `_handle` may wait for room here, and would delay all other connections
                pair.waiting.get_nowait()
            for stream in (pair.data, pair.errors):
                await self._say(spdy.data(stream, b"", last=True))

    async def _carry(self, pair: Pair, connection: Connection) -> None:
        """Carries both directions until the pod closes its side."""
        inward = asyncio.create_task(self._inward(pair, connection))
        try:
            while content := await connection.read():
                await self.socket.send_bytes(spdy.data(pair.data, content))
        finally:
            inward.cancel()
            await asyncio.gather(inward, return_exceptions=True)
            connection.close()

    async def _inward(self, pair: Pair, connection: Connection) -> None:
        try:
            while content := await pair.waiting.get():
                await connection.write(content)
        except OSError:  # the pod does not read any more; the connection ends when the pod closes its side
            while await pair.waiting.get():
                pass
        connection.end_input()

    async def _say(self, frame: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self.socket.send_bytes(frame)
