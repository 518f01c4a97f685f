"""Everything of runtime-api that needs the broker, and the work that keeps it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from gpu_runtime.config.nats import StreamSettings
from gpu_runtime.config.runtime_api import InvocationSettings
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.results.base import ResultReader
from gpu_runtime.service.invocations.acceptance import Acceptance
from gpu_runtime.service.invocations.changes import Changes
from gpu_runtime.service.invocations.dead_letters import DeadLetters
from gpu_runtime.service.invocations.ends import Ends
from gpu_runtime.service.invocations.functions import Functions
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.listing import InvocationList
from gpu_runtime.service.invocations.lookup import Lookup
from gpu_runtime.service.platform import Platform

CHECK_SECONDS = 30.0
RETRY_SECONDS = 1.0


class StreamKeeper:
    """Creates the streams, and reports those that have other settings. It never changes a stream."""

    def __init__(self, broker: Broker, settings: StreamSettings) -> None:
        self._broker = broker
        self._settings = settings
        self.problem: str | None = "the streams are not checked yet"
        self.ready = asyncio.Event()
        """Set once the streams exist."""
        self._log = structlog.get_logger("streams")

    async def run(self) -> None:
        """Checks again and again: a broker may come back with an empty disk."""
        while True:
            await self._broker.connected()
            try:
                differences = await streams.ensure(self._broker, self._settings)
            except BrokerError as error:
                self._report(str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._report("; ".join(differences) or None)
            self.ready.set()
            await asyncio.sleep(CHECK_SECONDS)

    def _report(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            self._log.warning("the streams are not as configured", problem=problem)
        self.problem = problem


@dataclass(frozen=True)
class ServerlessParts:
    """The connections and limits that serverless needs."""

    broker: Broker
    results: ResultReader | None = None
    streams: StreamSettings = field(default_factory=StreamSettings)
    limits: InvocationSettings = field(default_factory=InvocationSettings)


@dataclass(frozen=True)
class Serverless:
    """The use cases behind the serverless routes."""

    broker: Broker
    streams: StreamKeeper
    backlog: Backlog
    heartbeats: Heartbeats
    invocations: Invocations
    changes: Changes
    listing: InvocationList
    dead_letters: DeadLetters
    limits: InvocationSettings

    def warnings(self) -> Mapping[str, str | None]:
        """What is wrong. The process is ready all the same: everything but functions works without the broker."""
        return {"broker": self.broker.problem or None, "streams of the broker": self.streams.problem}

    async def work(self) -> None:
        """The background work; runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.streams.run())
            group.create_task(self.heartbeats.run())
            await self.streams.ready.wait()
            group.create_task(self.backlog.run())


def build_serverless(
    parts: ServerlessParts, platform: Platform, functions: Functions, clock: Clock = SYSTEM_CLOCK
) -> Serverless:
    broker, limits = parts.broker, parts.limits
    lookup, backlog, heartbeats = Lookup(broker, parts.results), Backlog(broker, clock), Heartbeats(broker, clock)
    acceptance = Acceptance(
        broker,
        lookup,
        functions,
        backlog,
        most_payload_bytes=limits.payloadBytes,
        max_age_seconds=limits.maxAgeSeconds,
        clock=clock,
    )
    invocations = Invocations(
        platform=platform,
        broker=broker,
        results=parts.results,
        lookup=lookup,
        acceptance=acceptance,
        ends=Ends(backlog, lookup),
        functions=functions,
        heartbeats=heartbeats,
        backlog=backlog,
    )
    changes = Changes(broker, parts.results, lookup, acceptance, clock)
    return Serverless(
        broker=broker,
        streams=StreamKeeper(broker, parts.streams),
        backlog=backlog,
        heartbeats=heartbeats,
        invocations=invocations,
        changes=changes,
        listing=InvocationList(parts.results, invocations, heartbeats),
        dead_letters=DeadLetters(parts.results, lookup, changes),
        limits=limits,
    )
