"""Publishes the end of a run: again and again until the broker has it, without running the run again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from msgspec.structs import replace

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.publishing import last_direct, publish_once
from gpu_runtime.serverless.broker.streams import RESULTS
from gpu_runtime.serverless.messages import EMPTY_BODY, STATE, Body, ResultMessage, encode
from gpu_runtime.serverless.subjects import Run
from gpu_runtime.serverless.worker.contract import Answer

_pauses = Exponential(0.05, 5.0)
_log = structlog.get_logger("worker")


class Ends:
    """Reads and publishes terminal events. While the broker does not take one, `problem` says why."""

    def __init__(self, broker: Broker, changed: Callable[[], None]) -> None:
        self._broker, self._changed = broker, changed
        self._problems: dict[Run, str] = {}

    @property
    def problem(self) -> str:
        return next(iter(self._problems.values()), "")

    async def exists(self, run: Run) -> bool:
        """Whether the run has ended. Waits for the broker as long as it takes."""
        failures = 0
        while True:
            try:
                return await last_direct(self._broker, RESULTS, subjects.ended(run)) is not None
            except BrokerError as error:
                _log.warning("the end of a run cannot be looked up", run=str(run), problem=str(error))
                await asyncio.sleep(_pauses.after(failures))
                failures += 1

    async def exists_now(self, run: Run) -> bool:
        """Whether the run is known to have ended. False when the broker does not answer."""
        try:
            return await last_direct(self._broker, RESULTS, subjects.ended(run)) is not None
        except BrokerError:
            return False

    async def publish(self, result: ResultMessage, answer: Answer) -> bool:
        """Stores the end with its body; False when another end was first. Returns only when there is an end."""
        failures = 0
        body: Body | None = None
        try:
            while True:
                try:
                    if body is None:
                        body = await self._store(result.of, answer)
                    return await self._publish(replace(result, body=body))
                except BrokerError as error:
                    self._trouble(result.of, f"the result of {result.of} cannot be published: {error}")
                    await asyncio.sleep(_pauses.after(failures))
                    failures += 1
        finally:
            if self._problems.pop(result.of, None) is not None:
                self._changed()

    async def _store(self, run: Run, answer: Answer) -> Body:
        if not answer.body:
            return EMPTY_BODY
        return await bodies.store(self._broker, run, answer.body, is_json=answer.is_json)

    async def _publish(self, result: ResultMessage) -> bool:
        subject = subjects.ended(result.of)
        sequence = await publish_once(self._broker, subject, encode(result), headers={STATE: result.state})
        return sequence is not None

    def _trouble(self, run: Run, problem: str) -> None:
        if self._problems.get(run) != problem:
            _log.warning("the broker is needed", problem=problem)
            self._problems[run] = problem
            self._changed()
