"""Finds an invocation: first at the broker, then in the database.

A run moves from the broker to the database: it is purged from the broker only after the database has it. Reads go in
the same direction, so that a run which moves at the same time is not missed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec
import structlog

from gpu_runtime.rest.errors import InvocationAmbiguous, Missing, Unavailable
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.publishing import StoredMessage, last
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.messages import HASH, SUBMISSION, InvocationMessage, ResultMessage
from gpu_runtime.serverless.results.base import ResultReader, StoreUnavailable
from gpu_runtime.serverless.results.records import StoredRun
from gpu_runtime.serverless.subjects import Function, Priority, Run

_log = structlog.get_logger("invocations")


@dataclass(frozen=True)
class FoundRun:
    """A run of an invocation. `end` is None until it has ended."""

    run: Run
    accepted_at: datetime | None
    request_hash: str = ""
    """Empty if only the end is known."""
    priority: Priority = "normal"
    submission: str = ""
    message: InvocationMessage | None = None
    """None if only the end is known, or if the message cannot be read."""
    end: ResultMessage | None = None


class Lookup:
    """Reads invocations for requests."""

    def __init__(self, broker: Broker, results: ResultReader | None) -> None:
        self._broker = broker
        self._results = results

    async def require(self, function: Function, invocation_id: str) -> FoundRun:
        found = await self.find(function, invocation_id)
        if found is None:
            raise missing(invocation_id, f"function {function.name} in namespace {function.namespace}")
        return found

    async def find(self, function: Function, invocation_id: str) -> FoundRun | None:
        """The last run of the invocation. Unavailable if nobody can say whether there is one."""
        try:
            accepted = await last(self._broker, INVOCATIONS, subjects.accepted_runs(function, invocation_id))
        except BrokerError as error:
            stored = await self._stored(function, invocation_id)
            if stored is not None and stored.end is not None:  # an end never changes
                return stored
            raise broker_away(error) from error
        if accepted is None:
            return await self._stored(function, invocation_id)
        found = _from_broker(accepted)
        return replace(found, end=await self.end(found.run))

    async def end(self, run: Run) -> ResultMessage | None:
        """The end of a run; None while it has none."""
        try:
            event = await last(self._broker, RESULTS, subjects.ended(run))
        except BrokerError as error:
            raise broker_away(error) from error
        if event is not None:
            return _decoded_end(event, run)
        if self._results is None:
            return None
        try:
            stored = await self._results.get(run)
        except StoreUnavailable as error:
            # The broker drops an end only together with its invocation. The invocation was there a moment ago.
            _log.warning("the database of results cannot be read", problem=str(error))
            return None
        return stored.end if stored is not None else None

    async def functions_of(self, invocation_id: str) -> list[Function]:
        """The functions that have an invocation of this id, in order."""
        found = {run.function for run in await self._at_broker(invocation_id)}
        if self._results is not None:
            try:
                found |= set(await self._results.find(invocation_id))
            except StoreUnavailable as error:
                if not found:
                    raise store_away(error) from error
        return sorted(found)

    async def function_of(self, invocation_id: str, serves: Callable[[str], bool]) -> Function:
        """The one function that has an invocation of this id, in the namespaces that `serves` accepts.

        InvocationAmbiguous names them if there are several.
        """
        functions = [each for each in await self.functions_of(invocation_id) if serves(each.namespace)]
        if not functions:
            raise missing(invocation_id, "any function")
        if len(functions) > 1:
            names = ", ".join(map(str, functions))
            raise InvocationAmbiguous(
                f"several functions have an invocation {invocation_id}: {names}. Name one with function= and namespace="
            )
        return functions[0]

    async def _at_broker(self, invocation_id: str) -> list[Run]:
        body = json.dumps({"subjects_filter": subjects.accepted_ids(invocation_id)}).encode()
        try:
            answer = json.loads((await self._broker.request(f"$JS.API.STREAM.INFO.{INVOCATIONS}", body)).data)
        except BrokerError as error:
            raise broker_away(error) from error
        return [subjects.parse_accepted(subject)[0] for subject in answer.get("state", {}).get("subjects") or {}]

    async def _stored(self, function: Function, invocation_id: str) -> FoundRun | None:
        if self._results is None:
            return None
        try:
            stored = await self._results.get_last(function, invocation_id)
        except StoreUnavailable as error:
            raise store_away(error) from error
        return from_database(stored) if stored is not None else None


def _from_broker(accepted: StoredMessage) -> FoundRun:
    run, priority = subjects.parse_accepted(accepted.subject)
    try:
        message = msgspec.json.decode(accepted.data, type=InvocationMessage)
    except msgspec.MsgspecError:
        message = None
    return FoundRun(
        run=run,
        accepted_at=message.acceptedAt if message is not None else accepted.stored_at,
        request_hash=accepted.headers.get(HASH, ""),
        priority=priority,
        submission=accepted.headers.get(SUBMISSION, ""),
        message=message,
    )


def from_database(stored: StoredRun) -> FoundRun:
    acceptance = stored.acceptance
    return FoundRun(
        run=stored.run,
        accepted_at=stored.accepted_at,
        request_hash=acceptance.request_hash if acceptance is not None else "",
        priority=acceptance.priority if acceptance is not None else "normal",
        message=acceptance.message if acceptance is not None else None,
        end=stored.end,
    )


def _decoded_end(event: StoredMessage, run: Run) -> ResultMessage:
    try:
        return msgspec.json.decode(event.data, type=ResultMessage)
    except msgspec.MsgspecError as error:
        # Only a program that is not ours can have published it. The run has ended: nothing else can be published.
        return ResultMessage(
            invocationID=run.invocation_id,
            serverlessRequestID=run.function.name,
            namespace=run.function.namespace,
            run=run.number,
            state="dead_lettered",  # as the result store has it
            failureClass="malformed_message",
            error=f"the message with its result cannot be read: {error}",
            completedAt=event.stored_at,
        )


def missing(invocation_id: str, where: str) -> Missing:
    return Missing("invocation", f"there is no invocation {invocation_id} of {where}")


def broker_away(error: BrokerError) -> Unavailable:
    return Unavailable(f"the broker cannot serve the request now: {error}")


def store_away(error: StoreUnavailable) -> Unavailable:
    """Without the database nobody can say whether an id was used before, if the broker does not know it any more."""
    return Unavailable(f"the database of results cannot serve the request now: {error}")
