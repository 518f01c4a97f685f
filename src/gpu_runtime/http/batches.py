"""Submits many invocations, each with an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gpu_runtime.http.errors import status_of
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.rest.errors import ErrorBody, ServiceError, Unavailable
from gpu_runtime.rest.invocations import BatchVerdict
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.submission import Submission
from gpu_runtime.service.kubernetes_errors import refusal

AT_ONCE = 32
BATCH_SECONDS = 20.0
"""Less than the time of a request, so that a broker that does not answer leaves time to say which ids to send again."""


async def submit_all(invocations: Invocations, submissions: Sequence[Submission]) -> list[BatchVerdict]:
    """The outcome of each, in order. Each has an id, so that it can be sent again."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(submission: Submission) -> BatchVerdict:
        async with gate:
            return await _verdict(invocations, submission)

    tasks = [asyncio.create_task(one(submission)) for submission in submissions]
    try:
        await asyncio.wait(tasks, timeout=BATCH_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [
        _unknown(submission) if task.cancelled() else task.result()
        for task, submission in zip(tasks, submissions, strict=True)
    ]


async def _verdict(invocations: Invocations, submission: Submission) -> BatchVerdict:
    try:
        accepted = await invocations.accept(submission)
        view = invocations.summary(accepted.found, duplicate=accepted.duplicate)
    except KubeError as error:
        return _refused(refusal(error))
    except ServiceError as error:
        return _refused(error)
    return BatchVerdict(status=200 if accepted.duplicate else 202, data=view)


def _refused(error: ServiceError) -> BatchVerdict:
    body = ErrorBody(code=error.code, message=error.message, details=list(error.details))
    return BatchVerdict(status=status_of(error), error=body)


def _unknown(submission: Submission) -> BatchVerdict:
    name = submission.invocation_id
    return _refused(
        Unavailable(f"there was no time for invocation {name}: it may have been accepted or not. Send it again")
    )
