"""All that one type of operation knows: how it begins, how it is executed and ended, what it made.

Requests reach it through `flow.carry_out`; the sweeper and the jobs find it in the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.api.v1alpha1.operation import Operation, OperationType
from gpu_runtime.rest.views import JobType
from gpu_runtime.service.operations.records import Ask, Operations
from gpu_runtime.service.reading import Reader


class CreateRequest(Protocol):
    """A request that begins an operation."""

    @property
    def operationID(self) -> str: ...  # noqa: N802  the name on the wire


@dataclass(frozen=True)
class Done:
    """A record that was followed as far as its client waits for it."""

    record: Operation


@dataclass(frozen=True)
class Watched:
    """A cached object that should change soon, and what is to be done when it does not."""

    obj: Object
    judge: Callable[[], Awaitable[None]]


Request = TypeVar("Request", bound=CreateRequest)
Result = TypeVar("Result", bound=Done)


class Executor(ABC, Generic[Request, Result]):
    """One type of operation. Several executors may work on one record at once, and each may stop at any call."""

    operation_type: ClassVar[OperationType]
    job_type: ClassVar[JobType]
    request_type: ClassVar[type[Struct]]
    most_turns: ClassVar[int] = 10  # how often one request begins again when its record disappears

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    # What a request needs.

    @abstractmethod
    def check(self, request: Request) -> None:
        """ServiceError when the request can be refused before anything is read."""

    async def find(self, request: Request) -> Operation | None:
        """The record of an earlier request with this id. None may be wrong: `begin` finds the record then."""
        return await self._operations.find(self.operation_type, request.operationID)

    @abstractmethod
    async def begin(self, ask: Ask, request: Request) -> tuple[Operation, bool]:
        """The record, and whether it was made just now."""

    @abstractmethod
    async def execute(self, record: Operation) -> Result | None:
        """Goes on with an unfinished record; None when it was given up and the request may begin again."""

    @abstractmethod
    async def replay(self, record: Operation) -> Result | None:
        """The same for a record that an earlier request began, in whatever phase it is."""

    # What the sweeper needs. All of it is safe to repeat, also while another executor works on the record.

    @abstractmethod
    async def resume(self, record: Operation) -> None:
        """Nobody works on this unfinished record any more: goes on with it, or undoes it."""

    async def complete(self, record: Operation) -> None:
        """Does what is left to do after the record Succeeded."""

    async def undo(self, record: Operation) -> None:
        """Removes what is left after the record Failed."""

    def held(self) -> Iterable[Watched]:
        """Objects that operations of this type hold, and that must be freed when no record stands for them."""
        return ()

    # What was made.

    def makes(self, record: Operation) -> Key:
        """Where the object is that the operation makes, as its job says."""
        if not record.status.objects:
            return Key("", "")
        made = record.status.objects[0]
        return Key(made.namespace, made.name)

    @abstractmethod
    async def lives(self, record: Operation) -> bool:
        """Whether something that the operation made is still there. The server confirms a no."""

    async def deleted(self, record: Operation) -> bool:
        """Whether the object was made and is gone. Never for stock, which comes to be consumed."""
        return record.status.phase == "Succeeded" and bool(record.status.objects) and not await self.lives(record)


AnyExecutor = Executor[Any, Any]


async def object_lives(record: Operation, reader: Reader[Any]) -> bool:
    """Whether the object that the record lists exists. Another of the same name is not it."""
    if not record.status.objects:
        return False
    made = record.status.objects[0]
    return await reader.has(Key(made.namespace, made.name), made.uid)
