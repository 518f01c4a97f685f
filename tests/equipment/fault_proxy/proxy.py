"""The proxy itself: a TLS server on loopback in front of an API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from equipment.fault_proxy.call import parse_call
from equipment.fault_proxy.certificates import loopback_tls
from equipment.fault_proxy.faults import DEADLINE, Fault
from equipment.fault_proxy.history import Exchange, History
from equipment.fault_proxy.kill import Kill, When
from equipment.fault_proxy.matching import Match, calls, watches, writes
from equipment.fault_proxy.passage import Answer, ConnectionLost, Forward, Passage, Reply
from equipment.fault_proxy.rule import Rule
from equipment.fault_proxy.script import Script
from equipment.fault_proxy.stream import WatchStream
from equipment.fault_proxy.upstream import Upstream, end_to_end
from equipment.servers import ApiServer
from gpu_runtime.edge.runner import stop_accepting


class FaultProxy:
    """Stands between any process and an API server; `proxy.server` is what the process is given instead.

    It runs in the test's event loop: never block that loop with a call that goes through it (`await proxy.kubectl`).
    """

    def __init__(
        self, server: ApiServer, *, name: str = "proxy", history: History | None = None, keep_reads: bool = False
    ) -> None:
        self.name = name
        self.history = history or History()
        self.faults: list[Fault] = []
        self._origin = server
        self._server: ApiServer | None = None
        self._keep_reads = keep_reads
        self._streams: list[WatchStream] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cleanup = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        directory = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="fault-proxy-")))
        self._upstream = Upstream(self._origin, keep_reads=self._keep_reads)
        self._cleanup.push_async_callback(self._upstream.close)
        server = web.Server(
            self._handle, handler_cancellation=True, access_log=None, auto_decompress=False,
            max_line_size=1 << 16, max_field_size=1 << 16,
        )  # fmt: skip
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        self._cleanup.push_async_callback(runner.cleanup)
        self._cleanup.push_async_callback(stop_accepting, runner)
        self._cleanup.push_async_callback(self._stop_tasks)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=loopback_tls().server_context())
        await site.start()
        port = runner.addresses[0][1]
        ca_file = directory / "ca.pem"
        ca_file.write_bytes(loopback_tls().ca_pem)
        self._server = self._origin.with_url(f"https://127.0.0.1:{port}", ca_file, directory)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._cleanup.aclose()
        if error is not None:
            sys.stderr.write(self.report())

    @property
    def server(self) -> ApiServer:
        """The API server as seen through the proxy: same token, other address, CA and kubeconfig."""
        assert self._server is not None, "use `async with FaultProxy(server) as proxy`"
        return self._server

    async def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - named as in subprocess.run
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl through the proxy without blocking the event loop that the proxy runs in."""
        return await asyncio.to_thread(self.server.kubectl, *args, input=input, check=check)

    # Scripting.

    def on(
        self,
        match: Match,
        *,
        nth: int | None = None,
        times: int | None = None,
        per_object: bool = False,
        chance: float = 1.0,
        seed: int = 0,
    ) -> Script:
        """Picks calls from now on; see Rule for what the arguments mean."""
        return Script(self, Rule(match, nth, times, per_object, chance, seed))

    def kill_at(
        self,
        n: int,
        victim: int | Callable[[], object],
        when: When = "after",
        *,
        of: Match | None = None,
        client: Match | None = None,
    ) -> Kill:
        """SIGKILLs a pid, or calls `victim`, at the n-th write from now (or n-th call that matches `of`).

        before: the server never sees it. after: the server did it, no answer comes. delivered: the answer came.
        From then on nothing that matches `client` (all, unless given) passes, until the handle is removed.
        """
        kill = Kill(self, Rule(of or writes(), nth=n), victim, when, client or calls())
        kill.place()
        return kill

    def remove_faults(self) -> None:
        """Everything passes from now on; what is held is let go, what is frozen thaws."""
        for fault in list(self.faults):
            fault.remove()

    # Watches that are open now.

    @property
    def open_streams(self) -> list[WatchStream]:
        return list(self._streams)

    def streams(self, match: Match | None = None) -> list[WatchStream]:
        """The open watches that match, oldest first."""
        return [stream for stream in self._streams if (match or watches())(stream.call)]

    async def stream(self, match: Match | None = None, *, within: float = DEADLINE) -> WatchStream:
        """Waits until a watch that matches is open; returns the newest."""
        found = await self.history.changes.expect(
            lambda: self.streams(match), within=within, what=lambda: f"no open watch: {match}"
        )
        return found[-1]

    # What went through.

    def calls(self, match: Match | None = None, *, since: int = 0) -> list[Exchange]:
        """All that went through this proxy, after a mark; reads have no response unless `keep_reads` was asked."""
        return [seen for seen in self.history.select(match or calls(), since) if seen.proxy == self.name]

    def writes(self, match: Match | None = None, *, since: int = 0) -> list[Exchange]:
        """The mutating requests that went through this proxy, after a mark."""
        return self.calls(writes() & match if match else writes(), since=since)

    def count(self, match: Match | None = None, *, since: int = 0) -> int:
        return len(self.calls(match, since=since))

    def mark(self) -> int:
        """A point in the history, for `since`."""
        return len(self.history.exchanges)

    async def seen(self, match: Match, times: int = 1, *, since: int = 0, within: float = DEADLINE) -> list[Exchange]:
        """Waits until so many calls that match have had their answer, or lost it; returns them."""
        return (
            await self.history.changes.expect(
                lambda: found if len(found := [c for c in self.calls(match, since=since) if c.done]) >= times else None,
                within=within,
                what=lambda: f"{match} seen {self.count(match, since=since)} times, not {times}",
            )
            or []
        )

    @property
    def trace(self) -> list[str]:
        """What was done to whom, a line each."""
        return self.history.trace

    def report(self) -> str:
        """The trace and the writes, for a person who looks at a failed test."""
        writes = [str(exchange) for exchange in self.writes()]
        return "\n".join([f"-- {self.name}: faults", *self.trace, f"-- {self.name}: writes", *writes, ""])

    # The way of a request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        call = parse_call(request.method, request.raw_path, request.headers, body)
        exchange = self.history.begin(call, self.name)
        if "Upgrade" in request.headers:
            return web.Response(status=501, text="the fault proxy forwards no connection upgrades")
        passage = Passage(call, request.raw_path, end_to_end(request.headers.items()), body, exchange)
        try:
            answer = await self._answer(passage)
            if isinstance(answer, WatchStream):
                # A client that leaves before the first line never begins `lines`, which would close the stream.
                with contextlib.closing(answer):
                    return await self._deliver_stream(request, answer)
            return await self._deliver(request, passage, answer)
        except ConnectionLost as lost:
            self.history.remark(f"#{exchange.sequence} {call}: connection reset, {lost}")
            _reset(request.transport)
            raise ConnectionResetError(str(lost)) from None
        finally:
            exchange.done = True
            self.history.changes.notify()

    async def _answer(self, passage: Passage) -> Answer:
        """Sends the request through the faults; goes on when the client leaves, as a request on the wire would."""
        forward: Forward = self._upstream.send
        for fault in reversed([fault for fault in list(self.faults) if fault.rule.hits(passage.call)]):
            forward = _wrapped(fault, forward)
        work = asyncio.ensure_future(forward(passage))
        self._keep(work)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_close_unwanted_stream)
            raise

    async def _deliver(self, request: web.BaseRequest, passage: Passage, reply: Reply) -> web.StreamResponse:
        response = web.Response(status=reply.status, headers=reply.headers, body=reply.body)
        await response.prepare(request)
        await response.write_eof()
        reply.exchange.answered = reply.status
        for act in passage.after_delivery:
            act()
        return response

    async def _deliver_stream(self, request: web.BaseRequest, stream: WatchStream) -> web.StreamResponse:
        response = web.StreamResponse(status=stream.status, headers=end_to_end(stream.headers.items()))
        response.enable_chunked_encoding()
        async with contextlib.aclosing(stream.lines()) as lines:
            await response.prepare(request)
            stream.exchange.answered = stream.status
            self._streams.append(stream)
            self.history.changes.notify()
            try:
                async for line in lines:
                    await response.write(line)
            finally:
                self._streams.remove(stream)
        await response.write_eof()
        return response

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Runs on its own until the proxy closes."""
        self._keep(asyncio.ensure_future(work))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        # Not a TaskGroup: a fixture enters and leaves the proxy in different tasks.
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _stop_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _wrapped(fault: Fault, forward: Forward) -> Forward:
    return lambda passage: fault.act(passage, forward)


def _close_unwanted_stream(work: asyncio.Future[Answer]) -> None:
    if not work.cancelled() and work.exception() is None and isinstance(stream := work.result(), WatchStream):
        stream.close()


def _reset(transport: asyncio.Transport | None) -> None:
    """Closes with RST: a plain close would look to the client like an orderly end."""
    if transport is None or (connected := transport.get_extra_info("socket")) is None:
        return  # the client has left already
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connected.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
