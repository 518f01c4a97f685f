"""Builds the views of invocations."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from gpu_runtime.rest.invocations import InvocationView, State
from gpu_runtime.serverless.messages import ResultMessage
from gpu_runtime.service.invocations.lookup import FoundRun


@dataclass(frozen=True)
class Progress:
    """What is known of a run that has not ended."""

    worker: str = ""
    position: int | None = None
    blocked: tuple[str, str] | None = None

    @property
    def state(self) -> State:
        return "running" if self.worker else "queued"


@dataclass(frozen=True)
class ShownBody:
    """The body of a result, as far as it can be shown."""

    data: bytes = b""
    is_json: bool = True
    missing: str = ""


def unfinished_view(found: FoundRun, progress: Progress, *, duplicate: bool | None = None) -> InvocationView:
    reason, message = progress.blocked if progress.blocked and not progress.worker else (UNSET, UNSET)
    return InvocationView(
        **_common(found, duplicate),
        state=progress.state,
        deadline=found.message.deadline if found.message is not None else UNSET,
        position=progress.position if progress.position is not None and not progress.worker else UNSET,
        reason=reason,
        message=message,
        workerName=progress.worker or UNSET,
    )


def ended_view(
    found: FoundRun, end: ResultMessage, body: ShownBody | None = None, *, duplicate: bool | None = None
) -> InvocationView:
    """The view of a run that has ended; without `body` the body is left out, as in lists."""
    return InvocationView(
        **_common(found, duplicate),
        state=end.state,
        workerName=end.workerName,
        workerNamespace=end.workerNamespace,
        attempts=end.attempts,
        startedAt=end.startedAt,
        completedAt=end.completedAt,
        statusCode=end.statusCode,
        contentType=end.contentType,
        headers=end.headers,
        failureClass=end.failureClass,
        error=end.error,
        **_body(body),
    )


def _common(found: FoundRun, duplicate: bool | None) -> dict[str, Any]:
    mode = found.message.mode if found.message is not None else found.end.mode if found.end is not None else "async"
    return {
        "invocationID": found.run.invocation_id,
        "serverlessRequestID": found.run.function.name,
        "namespace": found.run.function.namespace,
        "run": found.run.number,
        "mode": mode,
        "priority": found.priority,
        "acceptedAt": found.accepted_at,
        "duplicate": duplicate if duplicate is not None else UNSET,
    }


def _body(body: ShownBody | None) -> dict[str, Any]:
    if body is None:
        return {}
    if body.missing:
        return {"bodyMissing": body.missing}
    if not body.data:
        return {"body": None}
    if body.is_json and _is_json(body.data):
        return {"body": Raw(body.data)}
    return {"bodyBase64": b64encode(body.data).decode()}


def _is_json(data: bytes) -> bool:
    """Whether the bytes can stand in an answer as they are: a worker of another program may have sent anything."""
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
