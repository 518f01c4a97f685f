"""The protocol with one rule taken out each: the exploration must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gpu_runtime.activator.ending as activator_ending
import gpu_runtime.serverless.worker.ending as worker_ending
import gpu_runtime.serverless.worker.invocation as worker_invocation
from gpu_runtime.activator.expiry import Expiry
from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import NoAnswer
from gpu_runtime.serverless.broker.publishing import _sequence, publish_once
from gpu_runtime.serverless.worker.decisions import before_a_try
from gpu_runtime.serverless.worker.ending import Ends
from gpu_runtime.serverless.worker.invocation import Invocation
from gpu_runtime.service.invocations import acceptance, changes
from gpu_runtime.service.invocations.acceptance import Accepted
from gpu_runtime.service.invocations.changes import Changes
from gpu_runtime.service.invocations.lookup import FoundRun

Break = Callable[[pytest.MonkeyPatch], None]


async def publish_always(broker: Broker, subject: str, payload: bytes, **options: Any) -> int | None:
    """Stores the message, whatever the subject holds."""
    return _sequence(await broker.request(subject, payload, headers=options.get("headers")))


def first_wins(patch: pytest.MonkeyPatch) -> None:
    """An end is published over another one."""
    patch.setattr(worker_ending, "publish_once", publish_always)
    patch.setattr(activator_ending, "publish_once", publish_always)
    patch.setattr(changes, "publish_once", publish_always)


def submit_once(patch: pytest.MonkeyPatch) -> None:
    """An id is queued however often it is sent."""
    patch.setattr(acceptance, "publish_once", publish_always)


def ack_after_result(patch: pytest.MonkeyPatch) -> None:
    """A worker acknowledges what it takes."""
    work = Invocation._work

    async def acknowledge_first(self: Invocation) -> Any:
        await self.delivery.acknowledge()
        return await work(self)

    patch.setattr(Invocation, "_work", acknowledge_first)


def look_before_run(patch: pytest.MonkeyPatch) -> None:
    """A worker runs what has ended."""

    async def never(*_: Any) -> bool:
        return False

    patch.setattr(Ends, "exists", never)
    patch.setattr(Ends, "exists_now", never)


def count_attempts(patch: pytest.MonkeyPatch) -> None:
    """A worker runs a message however often it was delivered."""
    patch.setattr(worker_invocation, "before_a_try", lambda message, _, now: before_a_try(message, 1, now))


def reaper(patch: pytest.MonkeyPatch) -> None:
    """Nobody ends what is late and queued."""

    async def leave(_: Expiry) -> None:
        return

    patch.setattr(Expiry, "expire", leave)


def confirm_lost(patch: pytest.MonkeyPatch) -> None:
    """A publish that is not answered counts as refused."""

    async def assume(broker: Broker, subject: str, payload: bytes, **options: Any) -> int | None:
        try:
            return await publish_once(broker, subject, payload, **options)
        except NoAnswer as error:
            raise Unavailable("not accepted") from error

    patch.setattr(acceptance, "publish_once", assume)


def redrive_on_end(patch: pytest.MonkeyPatch) -> None:
    """A run is begun although the one before has not ended."""

    async def retry(self: Changes, found: FoundRun, run: int | None = None, *, only_dead: bool = False) -> Accepted:
        return await self._next_run(found) if found.run.number == run else Accepted(found, duplicate=True)

    patch.setattr(Changes, "retry", retry)


RULES: dict[str, Break] = {
    rule.__name__: rule
    for rule in (
        first_wins,
        submit_once,
        ack_after_result,
        look_before_run,
        count_attempts,
        reaper,
        confirm_lost,
        redrive_on_end,
    )
}
