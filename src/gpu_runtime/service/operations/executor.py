"""One executor per operation type: begins, executes and undoes its operations, and knows which objects they created.

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
from gpu_runtime.service.operations.records import NewOperation, Operations
from gpu_runtime.service.reading import Reader


class CreateRequest(Protocol):
    """A request that begins an operation. Its id may be optional, but a request without one begins no operation."""

    @property
    def operationID(self) -> str | None: ...  # noqa: N802  the name on the wire


@dataclass(frozen=True)
class Done:
    """A record whose operation is done, as far as the client waits for it."""

    record: Operation


@dataclass(frozen=True)
class HeldObject:
    """A cached object that should change soon. The sweeper calls `judge` when it does not."""

    obj: Object
    judge: Callable[[], Awaitable[None]]


Request = TypeVar("Request", bound=CreateRequest)
Result = TypeVar("Result", bound=Done)


class Executor(ABC, Generic[Request, Result]):
    """One type of operation. Several executors may work on one record at once, and each may stop at any call."""

    operation_type: ClassVar[OperationType]
    job_type: ClassVar[JobType]
    request_type: ClassVar[type[Struct]]
    max_attempts: ClassVar[int] = 10  # of one request, when its record disappears

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    # Called for a request.

    @abstractmethod
    def check(self, request: Request) -> None:
        """ServiceError when the request alone shows that it must be refused, before any read."""

    async def find(self, request: Request) -> Operation | None:
        """The record of an earlier request with this id. None may be wrong: `begin` finds the record then."""
        assert request.operationID is not None
        return await self._operations.find(self.operation_type, request.operationID)

    @abstractmethod
    async def begin(self, wanted: NewOperation, request: Request) -> tuple[Operation, bool]:
        """The record, and whether this call created it."""

    @abstractmethod
    async def execute(self, record: Operation) -> Result | None:
        """Continues an unfinished record; None when the operation was given up and the request may begin again."""

    @abstractmethod
    async def replay(self, record: Operation) -> Result | None:
        """The same for the record of an earlier request, in any phase."""

    # Called by the sweeper. All of it is safe to repeat, also while another executor works on the record.

    @abstractmethod
    async def resume(self, record: Operation) -> None:
        """Continues or undoes an unfinished record that no executor works on any more."""

    async def complete(self, record: Operation) -> None:
        """Finishes the work that is left after the record Succeeded."""

    async def undo(self, record: Operation) -> None:
        """Removes the objects that are left after the record Failed."""

    def held(self) -> Iterable[HeldObject]:
        """Objects that operations of this type hold. An object whose record is gone must be freed."""
        return ()

    # The created object.

    def object_key(self, record: Operation) -> Key:
        """Key of the object that the operation creates, for its job."""
        if not record.status.objects:
            return Key("", "")
        made = record.status.objects[0]
        return Key(made.namespace, made.name)

    @abstractmethod
    async def lives(self, record: Operation) -> bool:
        """Whether an object that the operation created still exists. The server confirms a no."""

    async def deleted(self, record: Operation) -> bool:
        """Whether the object was created and is gone. Always False for stock: it exists to be consumed."""
        return record.status.phase == "Succeeded" and bool(record.status.objects) and not await self.lives(record)


AnyExecutor = Executor[Any, Any]


async def object_lives(record: Operation, reader: Reader[Any]) -> bool:
    """Whether the object that the record lists exists. An object with the same name and another UID does not count."""
    if not record.status.objects:
        return False
    made = record.status.objects[0]
    return await reader.has(Key(made.namespace, made.name), made.uid)
