"""Waiting for the end of a run, when it comes at the worst moment."""

from __future__ import annotations

import asyncio
from typing import cast

from equipment.mutation import mutant
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.kube.clock import SYSTEM_CLOCK
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.following import Followed
from gpu_runtime.serverless.messages import ResultMessage
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.invocations.ends import POLL_SECONDS, Ends
from gpu_runtime.service.invocations.lookup import Lookup

RUN = Run(Function("runtime-instance", "echo"), "inv-1", 1)
END = ResultMessage(
    invocationID=RUN.invocation_id,
    serverlessRequestID=RUN.function.name,
    namespace=RUN.function.namespace,
    state="succeeded",
    completedAt=SYSTEM_CLOCK.now(),
)


class LateLookup:
    """Reads before the end is stored, and answers after the backlog has seen it."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self.looks = 0

    async def end(self, run: Run) -> ResultMessage | None:
        self.looks += 1
        if self.looks > 1:
            return END
        self._backlog._on_ended(Followed(subjects.ended(run), 1, 0.0, {}))
        return None


@mutant(
    "service/invocations/ends.py",
    "                ended.clear()  # before the look: the run may end while it is looked for\n"
    "                end = await self.look(run)",
    "                end = await self.look(run)\n                ended.clear()",
)
async def test_an_end_that_comes_while_it_is_looked_for_is_seen_at_once() -> None:
    backlog = Backlog(Broker(NatsSettings(), "test"))
    lookup = LateLookup(backlog)
    waiting = Ends(backlog, cast("Lookup", lookup)).wait(RUN, POLL_SECONDS * 10)
    assert await asyncio.wait_for(waiting, POLL_SECONDS / 2) == END
