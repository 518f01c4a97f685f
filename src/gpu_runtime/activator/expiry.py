"""Ends invocations past their deadline that no worker ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gpu_runtime.activator.ending import Ender, Ending
from gpu_runtime.kube.clock import Clock
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.heartbeats import Heartbeats

LONGEST_PAUSE = 1.0
AGAIN_SECONDS = 2.0
RUNNING_SECONDS = 30.0
"""A worker ends a late run of its own. If it says for so long after the deadline that it works on it, we end it."""
EXPIRED = Ending("expired", "deadline_passed", "its deadline passed before a worker finished it")


@dataclass(frozen=True)
class Expiry:
    """Works while `leading` returns True. Two processes at once do no harm: the first end of a run wins."""

    backlog: Backlog
    heartbeats: Heartbeats
    ender: Ender
    clock: Clock
    leading: Callable[[], bool]

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._pause())
            if self.leading() and not self.backlog.problem:
                await self.expire()

    async def expire(self) -> None:
        """Ends what is overdue now."""
        now = self.clock.now().timestamp()
        for run in self.backlog.overdue(now):
            found = self.backlog.find(run)
            if found is None:
                continue
            if self.heartbeats.is_running(run.function, run.key) and now < found.deadline + RUNNING_SECONDS:
                self.backlog.again(run, now + AGAIN_SECONDS)
                continue
            self.backlog.again(run, now + AGAIN_SECONDS)  # for the case that the broker does not answer
            try:
                ended = await self.ender.end(run, EXPIRED)
            except BrokerError as error:
                structlog.get_logger("expiry").warning("a late run was not ended; trying again", problem=str(error))
                return
            if ended:
                structlog.get_logger("expiry").info("ended a late run", run=str(run))

    def _pause(self) -> float:
        due = self.backlog.next_deadline()
        if due is None or not self.leading():
            return LONGEST_PAUSE
        return min(LONGEST_PAUSE, max(0.02, due - self.clock.now().timestamp()))
