"""What becomes of a delivered invocation: a row for each decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from equipment.mutation import mutant
from gpu_runtime.serverless.messages import InvocationMessage, Retry
from gpu_runtime.serverless.worker.contract import Answer, Failure
from gpu_runtime.serverless.worker.decisions import Ending, TryAgain, after_a_try, before_a_try, try_seconds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = Failure("framework_error", "sad")
FOR_GOOD = Failure("framework_error", "bad input", retryable=False)


def message(seconds: float = 100, **fields: Any) -> InvocationMessage:
    usual: dict[str, Any] = {
        "invocationID": "inv",
        "serverlessRequestID": "echo",
        "namespace": "ns",
        "deadline": NOW + timedelta(seconds=seconds),
        "acceptedAt": NOW,
        "retry": Retry(maxAttempts=3, backoffSeconds=(2, 10)),
    }
    return InvocationMessage(**{**usual, **fields})


@mutant("serverless/worker/decisions.py", "if attempt > message.retry.maxAttempts:", "if False:")
@pytest.mark.parametrize(
    ("seconds", "attempt", "end"),
    [
        (100, 1, None),
        (100, 3, None),
        (100, 4, ("dead_lettered", "worker_lost", 3)),
        (0, 1, ("expired", "deadline_passed", 0)),
        (-5, 3, ("expired", "deadline_passed", 2)),
        (-5, 4, ("dead_lettered", "worker_lost", 3)),
    ],
)
def test_an_invocation_is_not_tried_too_often_or_too_late(seconds: float, attempt: int, end: object) -> None:
    found = before_a_try(message(seconds), attempt, NOW)
    assert (found and (found.state, found.failure, found.attempts)) == end


def test_a_lost_worker_is_blamed_for_the_last_try_alone() -> None:
    found = before_a_try(message(), 4, NOW)
    words = "3 times the invocation was tried; the worker of the last try was lost or stopped"
    assert found is not None
    assert found.error == words


@mutant("serverless/worker/decisions.py", "if not outcome.retryable:", "if False:")
@pytest.mark.parametrize(
    ("outcome", "seconds", "attempt", "end"),
    [
        (Answer(body=b"1"), 100, 1, ("succeeded", None)),
        (Answer(body=b"1"), -1, 9, ("succeeded", None)),  # it is done: nobody gains by throwing it away
        (FOR_GOOD, 100, 1, ("failed", "framework_error")),
        (FOR_GOOD, -1, 3, ("failed", "framework_error")),
        (FAILED, -1, 1, ("expired", "deadline_passed")),
        (FAILED, -1, 3, ("expired", "deadline_passed")),
        (FAILED, 100, 3, ("dead_lettered", "retry_exhausted")),
        (FAILED, 100, 4, ("dead_lettered", "retry_exhausted")),
    ],
)
def test_a_try_ends_the_run(outcome: Answer | Failure, seconds: float, attempt: int, end: object) -> None:
    found = after_a_try(message(seconds), attempt, outcome, NOW)
    assert isinstance(found, Ending)
    assert (found.state, found.failure) == end
    assert (outcome.error in (found.error or "")) if isinstance(outcome, Failure) else found.error is None
    assert found.attempts == attempt


@mutant("serverless/worker/decisions.py", "if attempt >= message.retry.maxAttempts:", "if attempt > 1:")
@mutant("serverless/worker/decisions.py", "TryAgain(min(message.retry.delay(attempt), left)", "TryAgain(left")
@pytest.mark.parametrize(
    ("attempt", "seconds", "delay"), [(1, 100, 2), (2, 100, 10), (1, 1.5, 1.5)], ids=["first", "second", "deadline"]
)
def test_a_failure_that_may_pass_is_tried_again_after_its_delay(attempt: int, seconds: float, delay: float) -> None:
    assert after_a_try(message(seconds), attempt, FAILED, NOW) == TryAgain(delay, "sad")


@pytest.mark.parametrize(("seconds", "run_seconds", "limit"), [(100, None, 100), (100, 7, 7), (5, 7, 5)])
def test_a_try_may_run_until_its_limit_or_the_deadline(seconds: float, run_seconds: int | None, limit: float) -> None:
    assert try_seconds(message(seconds, runSeconds=run_seconds), NOW) == limit
