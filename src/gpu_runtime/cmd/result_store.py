"""The result store: copies invocations and their ends from the broker into a database. Any number of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import structlog

from gpu_runtime.config import ResultStoreSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.kube.backoff import Exponential, JitteredBackoff
from gpu_runtime.kube.process import ProcessContext
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.results.base import IncompatibleSchema, ResultStore, StoreUnavailable
from gpu_runtime.serverless.results.consuming import consumers
from gpu_runtime.serverless.results.housekeeping import Housekeeping, Limits
from gpu_runtime.serverless.results.listening import AdvisoryListener
from gpu_runtime.serverless.results.metrics import Metrics
from gpu_runtime.serverless.results.opening import open_store

RETRY = Exponential(0.1, 10.0)
_log = structlog.get_logger("result-store")


async def main(settings: ResultStoreSettings, process: ProcessContext) -> None:
    if settings.nats.url is None:
        _log.info("nats.url is not set: there are no serverless functions, and nothing to store")
        process.health.add()
        await process.stop.wait()
        return
    store = open_store(settings.results)
    try:
        async with Broker(settings.nats, "result-store") as broker:
            work = asyncio.create_task(_work(settings, process, store, broker))
            await _until_first(work, process.stop, broker.lost)
        if broker.lost.is_set() and not process.stop.is_set():
            raise ConfigError(f"the broker closed the connection: {broker.problem}")
    finally:
        await store.close()


async def _work(settings: ResultStoreSettings, process: ProcessContext, store: ResultStore, broker: Broker) -> None:
    metrics = Metrics()
    copies = consumers(store, broker, metrics, settings.ackWaitSeconds)
    state: dict[str, str | None] = {"database": "not opened yet"}

    def checks() -> Mapping[str, str | None]:
        problems = {**state, "broker": broker.problem or None}
        for copy in copies:
            problems["database"] = problems["database"] or copy.database_problem
            problems[copy.name] = copy.broker_problem
        return problems

    process.health.add(checks, metrics.registry)
    await _migrate(store, state)
    async with asyncio.TaskGroup() as tasks:
        for copy in copies:
            tasks.create_task(copy.run())
        tasks.create_task(AdvisoryListener(store, broker, metrics).run())
        tasks.create_task(Housekeeping(store, broker, _limits(settings), metrics).run())


async def _migrate(store: ResultStore, state: dict[str, str | None]) -> None:
    """Waits for the database as long as it takes."""
    backoff = JitteredBackoff(RETRY)
    while True:
        try:
            await store.migrate()
        except IncompatibleSchema as error:
            raise ConfigError(str(error)) from error
        except StoreUnavailable as error:
            state["database"] = str(error)
            _log.warning("cannot prepare the database; trying again", problem=str(error))
            await asyncio.sleep(backoff.next())
        else:
            state["database"] = None
            return


async def _until_first(work: asyncio.Task[None], *events: asyncio.Event) -> None:
    """Returns when an event is set; raises what the work raises."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait([work, *waits], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
    finally:
        for task in (work, *waits):
            task.cancel()
        await asyncio.gather(work, *waits, return_exceptions=True)


def _limits(settings: ResultStoreSettings) -> Limits:
    return Limits(
        broker_keep=timedelta(seconds=settings.keepSeconds),
        database_keep=timedelta(seconds=settings.retentionSeconds),
        database_bytes=settings.retentionBytes,
        purges_per_second=settings.purgesPerSecond,
        every=timedelta(seconds=settings.housekeepingSeconds),
    )
