"""The records of the result store, as both databases give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, TypeVar

from gpu_runtime.serverless.messages import InvocationMessage, ResultMessage, State
from gpu_runtime.serverless.subjects import Priority, Run

DeadLetterSource = Literal["run", "malformed", "max_deliver"]


@dataclass(frozen=True)
class Acceptance:
    """An accepted invocation, as it stands in the queue. It never changes."""

    run: Run
    request_hash: str
    """The header Gr-Hash: equal for equal requests."""
    priority: Priority
    accepted_at: datetime
    message: InvocationMessage | None
    """With its payload if that was in the message. None: the message could not be read, and a dead letter has it."""


@dataclass(frozen=True)
class End:
    """The end of a run. The first one that is stored stays."""

    message: ResultMessage
    """With its body if that was in the message."""
    ended_at: datetime
    """When the broker stored the event. How long a record is kept counts from here: clocks of workers may be wrong."""


@dataclass(frozen=True)
class StoredRun:
    """What the database knows of one run. Acceptance and end arrive independently: each may come first."""

    run: Run
    accepted_at: datetime
    acceptance: Acceptance | None
    end: ResultMessage | None
    """With its body if that was in the message. It never changes."""

    @property
    def state(self) -> State:
        """`queued` until an end is stored: the database does not know what runs."""
        return self.end.state if self.end else "queued"


@dataclass(frozen=True)
class DeadLetter:
    """Something that nobody could handle, with its reason. Sources:

    - run: a run that ended `dead_lettered`. It can be redriven: that is the run after it.
    - malformed: a message that the result store could not read. `content` has its bytes.
    - max_deliver: a message that the broker delivered as often as a consumer allows. `content` has its bytes, if the
      broker still had them.
    """

    id: str
    """`<namespace>.<function>.<id>.<run>` of a run; otherwise derived from stream and sequence."""
    source: DeadLetterSource
    failed_at: datetime
    failure_class: str
    error: str
    attempts: int
    run: Run | None = None
    redriven: bool = False
    """Whether the run after it exists."""
    subject: str = ""
    stream: str = ""
    consumer: str = ""
    sequence: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    """The bytes of the message. None for a run: its StoredRun has everything."""


T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    items: list[T]
    next: str | None
    """The token of the next page; None on the last one."""
