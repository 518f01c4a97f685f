"""What becomes of a delivered invocation, before and after a try. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from gpu_runtime.serverless.messages import End, FailureClass, InvocationMessage
from gpu_runtime.serverless.worker.contract import Answer, Failure

NOTHING = Answer(0, content_type="", body=b"", is_json=False)


@dataclass(frozen=True)
class Ending:
    """The end of a run."""

    state: End
    failure: FailureClass | None = None
    error: str | None = None
    answer: Answer = field(default_factory=lambda: NOTHING)
    attempts: int = 0


@dataclass(frozen=True)
class TryAgain:
    """The broker delivers the invocation again after the delay."""

    delay: float
    error: str


def before_a_try(message: InvocationMessage, attempt: int, now: datetime) -> Ending | None:
    """The end of a run that must not be tried (again); None if it must."""
    if attempt > message.retry.maxAttempts:
        tried = f"{_times(message.retry.maxAttempts)} the invocation was tried"
        error = f"{tried}; the worker of the last try was lost or stopped"
        return Ending("dead_lettered", "worker_lost", error, attempts=attempt - 1)
    if now >= message.deadline:
        return expired(attempt - 1, "")
    return None


def expired(attempts: int, last_error: str) -> Ending:
    error = "the deadline passed before the invocation was done"
    return Ending(
        "expired", "deadline_passed", f"{error}; last error: {last_error}" if last_error else error, attempts=attempts
    )


def after_a_try(
    message: InvocationMessage, attempt: int, outcome: Answer | Failure, now: datetime
) -> Ending | TryAgain:
    """What becomes of the run after the try number `attempt`."""
    if isinstance(outcome, Answer):
        return Ending("succeeded", answer=outcome, attempts=attempt)
    if not outcome.retryable:
        return Ending("failed", outcome.kind, outcome.error, outcome.answer, attempt)
    if now >= message.deadline:
        return expired(attempt, outcome.error)
    if attempt >= message.retry.maxAttempts:
        error = f"{_times(attempt)} the invocation failed; last error: {outcome.error}"
        return Ending("dead_lettered", "retry_exhausted", error, outcome.answer, attempt)
    left = (message.deadline - now).total_seconds()
    return TryAgain(min(message.retry.delay(attempt), left), outcome.error)


def try_seconds(message: InvocationMessage, now: datetime) -> float:
    """How long a try may take from now on."""
    left = (message.deadline - now).total_seconds()
    return left if message.runSeconds is None else min(left, message.runSeconds)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
