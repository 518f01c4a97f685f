"""Ends runs that no worker will end: late ones that nobody takes, and those of a function that is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from nats.errors import Error

from gpu_runtime.kube.clock import Clock
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.messages import (
    STATE,
    Cancelled,
    End,
    FailureClass,
    InvocationMessage,
    ResultMessage,
    encode,
)
from gpu_runtime.serverless.subjects import Run

AT_ONCE = 32


@dataclass(frozen=True)
class Ending:
    """How a run ends."""

    state: End
    failure_class: FailureClass
    error: str


@dataclass(frozen=True)
class Ender:
    """Publishes ends. The first end of a run wins, so each method may be called twice and by two processes."""

    broker: Broker
    backlog: Backlog
    clock: Clock

    async def end_all(self, runs: Sequence[Run], ending: Ending) -> None:
        """Ends these runs, and tells workers that still work on one. BrokerError when one could not be ended."""
        for start in range(0, len(runs), AT_ONCE):
            await asyncio.gather(*(self.end(run, ending) for run in runs[start : start + AT_ONCE]))

    async def end(self, run: Run, ending: Ending) -> bool:
        """Whether this call ended the run. False: it had an end already."""
        stored = await last(self.broker, INVOCATIONS, subjects.accepted_any(run))
        message = _result(run, ending, stored.data if stored is not None else b"", self.clock)
        if await publish_once(self.broker, subjects.ended(run), encode(message), headers={STATE: ending.state}) is None:
            self.backlog.end(run)
            return False
        with suppress(Error, OSError):  # a worker that does not hear it finds the end later
            told = encode(Cancelled(invocationID=run.invocation_id, run=run.number))
            await self.broker.nats.publish(subjects.cancelled(run.function), told)
        return True


def _result(run: Run, ending: Ending, invocation: bytes, clock: Clock) -> ResultMessage:
    """The terminal event. An invocation that cannot be read still gets one."""
    try:
        accepted = msgspec.json.decode(invocation, type=InvocationMessage)
    except msgspec.MsgspecError:
        accepted = None
    return ResultMessage(
        invocationID=run.invocation_id,
        serverlessRequestID=run.function.name,
        namespace=run.function.namespace,
        run=run.number,
        mode=accepted.mode if accepted is not None else "async",
        state=ending.state,
        failureClass=ending.failure_class,
        error=ending.error,
        acceptedAt=accepted.acceptedAt if accepted is not None else None,
        completedAt=clock.now(),
    )
