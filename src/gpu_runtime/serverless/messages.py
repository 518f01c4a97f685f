"""The messages on the broker, as JSON. Unknown fields are ignored, so that processes of two versions understand each
other."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from gpu_runtime.serverless.subjects import Function, Run

VERSION = "v1"

# NATS headers: what must be known without reading the body.
HASH = "Gr-Hash"
"""The hash of the request that was accepted."""
DEADLINE = "Gr-Deadline"
"""When the run must have ended, in milliseconds since the epoch."""
SUBMISSION = "Gr-Submission"
"""Random, one for each submit: tells a publisher that lost its answer whether the stored message is its own."""
STATE = "Gr-State"
"""The state of a terminal event."""

Mode = Literal["async", "sync"]
End = Literal["succeeded", "failed", "expired", "cancelled", "dead_lettered"]
State = Literal["queued", "running", "succeeded", "failed", "expired", "cancelled", "dead_lettered"]
FailureClass = Literal[
    "malformed_message",
    "framework_error",
    "framework_timeout",
    "framework_answer",
    "worker_lost",
    "retry_exhausted",
    "deadline_passed",
    "cancelled_by_user",
    "function_deleted",
]
WorkerState = Literal["starting", "ready", "draining"]


class BodyRef(Struct, frozen=True, kw_only=True):
    """A body that is too large for a message: its chunks are in the stream of bodies."""

    key: str
    size: int
    sha256: str
    chunks: int


class Retry(Struct, frozen=True, kw_only=True):
    """What happens after a failure that another try may cure."""

    maxAttempts: int = 5
    backoffSeconds: tuple[int, ...] = (2, 10, 30)

    def delay(self, attempt: int) -> int:
        """Seconds to wait after the failed try number `attempt`."""
        if not self.backoffSeconds:
            return 0
        return self.backoffSeconds[min(attempt, len(self.backoffSeconds)) - 1]


class Body(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A payload or a result: JSON, other bytes, or a reference to a large body. At most one of them is set."""

    json: Raw = Raw()
    base64: str = ""
    ref: BodyRef | None = None

    @classmethod
    def of(cls, data: bytes, *, is_json: bool) -> Body:
        return cls(json=Raw(data)) if is_json else cls(base64=base64.b64encode(data).decode())

    def inline(self) -> bytes:
        """The bytes, unless they are stored by reference."""
        return bytes(self.json) if len(self.json) else base64.b64decode(self.base64)


EMPTY_BODY = Body()


class InvocationMessage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An accepted invocation. It carries the policy that it was accepted with: a worker needs no other."""

    version: str = VERSION
    invocationID: str
    serverlessRequestID: str
    namespace: str
    run: int = 1
    mode: Mode = "async"
    contentType: str = "application/json"
    headers: dict[str, str] = {}
    attributes: dict[str, str] = {}
    payload: Body = EMPTY_BODY
    runSeconds: int | None = None
    """The limit of one try. None: until the deadline."""
    deadline: datetime
    acceptedAt: datetime
    retry: Retry = Retry()

    @property
    def of(self) -> Run:
        return Run(Function(self.namespace, self.serverlessRequestID), self.invocationID, self.run)


class ResultMessage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The terminal event of a run."""

    version: str = VERSION
    invocationID: str
    serverlessRequestID: str
    namespace: str
    run: int = 1
    mode: Mode = "async"
    state: End
    failureClass: FailureClass | None = None
    error: str | None = None
    workerName: str = ""
    workerNamespace: str = ""
    statusCode: int | None = None
    contentType: str = ""
    headers: dict[str, str] = {}
    body: Body = EMPTY_BODY
    attempts: int = 0
    acceptedAt: datetime | None = None
    startedAt: datetime | None = None
    completedAt: datetime

    @property
    def of(self) -> Run:
        return Run(Function(self.namespace, self.serverlessRequestID), self.invocationID, self.run)


class WorkerHeartbeat(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a worker does now."""

    version: str = VERSION
    namespace: str
    function: str
    workerName: str
    state: WorkerState
    problem: str = ""
    """Why it is not ready, for people."""
    concurrency: int = 1
    running: list[str] = []
    """Keys of its runs: `<id>.<run>`."""
    idleSince: float | None = None
    """Seconds since the epoch; None while it works."""
    sentAt: float


class Cancelled(Struct, frozen=True, kw_only=True):
    """Tells workers that a run was cancelled."""

    invocationID: str
    run: int


class Control(Struct, frozen=True, kw_only=True):
    """Tells one worker to stop taking invocations."""

    drain: bool = True


class Output(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of a run's output, in order. The first one has no data: the run has begun."""

    sequence: int
    workerName: str = ""
    attempt: int = 1
    data: Body = EMPTY_BODY


def encode(message: Struct) -> bytes:
    return msgspec.json.encode(message)
