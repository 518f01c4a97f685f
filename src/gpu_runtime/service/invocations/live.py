"""What happens to a run, as it happens: its place in the queue, workers that start, its output, its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw
from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.rest.invocations import InvocationView
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.messages import Output
from gpu_runtime.serverless.subjects import Run
from gpu_runtime.service.invocations.functions import Worker
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.lookup import FoundRun
from gpu_runtime.service.invocations.views import unfinished_view

TICK_SECONDS = 1.0
POLL_SECONDS = 5.0
MOST_PIECES = 1000
"""Pieces of output that wait for a slow client. Further ones are left out; the end has the whole result."""


@dataclass(frozen=True)
class LiveEvent:
    """One event. `kind` is empty when a tick brought no news."""

    kind: str = ""
    data: Any = None
    id: str = ""


def end_id(run: Run) -> str:
    """The id of the last event. A client that sends it as Last-Event-ID has seen everything."""
    return f"{run.number}.end"


async def live_events(invocations: Invocations, found: FoundRun) -> AsyncGenerator[LiveEvent, None]:
    """Events until the end of the run. Output of the past is not repeated; the end always comes."""
    run, told = found.run, _Told()
    clock = asyncio.get_running_loop()
    with invocations.backlog.ending(run) as ended:
        async with _output(invocations, run) as output:
            end, looked = await invocations.ends.look(run), clock.time()
            while end is None:
                for event in (*told.news(invocations, found), *output.take()):
                    yield event
                yield LiveEvent()
                await _first(ended, output.arrived)
                if ended.is_set() or clock.time() - looked > POLL_SECONDS:
                    ended.clear()
                    end, looked = await invocations.ends.look(run), clock.time()
            for event in output.take():
                yield event
    yield LiveEvent("end", await invocations.view(replace(found, end=end)), end_id(run))


class _Told:
    """What the client was told last."""

    def __init__(self) -> None:
        self._view: InvocationView | None = None
        self._workers: dict[str, Worker] = {}

    def news(self, invocations: Invocations, found: FoundRun) -> list[LiveEvent]:
        """What has changed since the last call."""
        news = []
        view = unfinished_view(found, invocations.progress(found.run))
        if view != self._view:
            self._view = view
            news.append(LiveEvent(view.state, view))
        if view.state == "queued":
            for worker in invocations.functions.workers(found.run.function):
                if self._workers.get(worker.name) != worker:
                    self._workers[worker.name] = worker
                    news.append(LiveEvent("worker", _shown(worker)))
        return news


class _Output:
    """Output that has arrived and was not sent yet."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._pieces: deque[LiveEvent] = deque()

    async def received(self, message: Msg) -> None:
        try:
            piece = msgspec.json.decode(message.data, type=Output)
        except msgspec.MsgspecError:
            return
        if len(self._pieces) < MOST_PIECES:
            self._pieces.append(_piece_event(piece))
            self.arrived.set()

    def take(self) -> list[LiveEvent]:
        self.arrived.clear()
        taken = list(self._pieces)
        self._pieces.clear()
        return taken


def _piece_event(piece: Output) -> LiveEvent:
    data: dict[str, Any] = {"sequence": piece.sequence, "attempt": piece.attempt, "workerName": piece.workerName}
    if piece.sequence == 0:
        return LiveEvent("running", data)
    if len(piece.data.json):
        data["output"] = Raw(bytes(piece.data.json))
    else:
        data["outputBase64"] = piece.data.base64
    return LiveEvent("output", data, f"{piece.attempt}.{piece.sequence}")


def _shown(worker: Worker) -> dict[str, str]:
    return {"workerName": worker.name, "phase": worker.phase, "reason": worker.reason, "message": worker.message}


@asynccontextmanager
async def _output(invocations: Invocations, run: Run) -> AsyncIterator[_Output]:
    """The output of the run from now on. Without a connection there is none; the end comes all the same."""
    output, subscription = _Output(), None
    with suppress(Error, OSError):
        subscription = await invocations.broker.nats.subscribe(subjects.output(run), cb=output.received)
    try:
        yield output
    finally:
        if subscription is not None:
            with suppress(Error, OSError):
                await subscription.unsubscribe()


async def _first(*events: asyncio.Event) -> None:
    """Returns when one of the events is set, or after a tick."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
