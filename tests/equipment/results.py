"""Records of invocations for tests of the result store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.serverless.messages import Body, InvocationMessage, ResultMessage
from gpu_runtime.serverless.results.base import Batch, ResultReader, ResultStore
from gpu_runtime.serverless.results.opening import open_reader, open_store
from gpu_runtime.serverless.results.records import Acceptance, End
from gpu_runtime.serverless.subjects import Function, Run

ECHO = Function("runtime-instance", "echo")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def a_run(invocation_id: str = "inv-1", number: int = 1, function: Function = ECHO) -> Run:
    return Run(function, invocation_id, number)


def at(seconds: float) -> datetime:
    """A time after noon."""
    return NOON + timedelta(seconds=seconds)


def an_invocation(run: Run, accepted_at: datetime = NOON, **fields: Any) -> InvocationMessage:
    fields = {"payload": Body.of(b'{"x":1}', is_json=True)} | fields
    return InvocationMessage(
        invocationID=run.invocation_id,
        serverlessRequestID=run.function.name,
        namespace=run.function.namespace,
        run=run.number,
        deadline=accepted_at + timedelta(days=1),
        acceptedAt=accepted_at,
        **fields,
    )


def an_acceptance(run: Run, accepted_at: datetime = NOON, **fields: Any) -> Acceptance:
    return Acceptance(run, "hash-1", "normal", accepted_at, an_invocation(run, accepted_at, **fields))


def an_end(run: Run, state: str = "succeeded", ended_at: datetime = NOON, **fields: Any) -> End:
    return End(a_result(run, state, ended_at, **fields), ended_at)


def a_result(run: Run, state: str = "succeeded", completed_at: datetime = NOON, **fields: Any) -> ResultMessage:
    usual: dict[str, Any] = {"acceptedAt": completed_at, "body": Body.of(b'{"got":1}', is_json=True)}
    return ResultMessage(
        invocationID=run.invocation_id,
        serverlessRequestID=run.function.name,
        namespace=run.function.namespace,
        run=run.number,
        completedAt=completed_at,
        **usual | {"state": state, "statusCode": 200, "attempts": 1} | fields,
    )


async def finish(store: ResultStore, run: Run, ended_at: datetime = NOON, *, purged: bool = True) -> None:
    """Stores a run that has ended; `purged`: the broker has no copies any more."""
    await store.save(Batch([an_acceptance(run, ended_at)], [an_end(run, ended_at=ended_at)]))
    if purged:
        await store.mark_purged([run])


@dataclass(frozen=True)
class ResultDatabase:
    """An empty database for one test."""

    settings: ResultsSettings

    @asynccontextmanager
    async def store(self, *, migrate: bool = True) -> AsyncIterator[ResultStore]:
        store = open_store(self.settings)
        try:
            if migrate:
                await store.migrate()
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[ResultReader]:
        reader = open_reader(self.settings)
        try:
            yield reader
        finally:
            await reader.close()
