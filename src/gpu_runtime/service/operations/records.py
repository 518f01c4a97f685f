"""Operation records. Creating a record is the lock; each change is a compare-and-set on its resourceVersion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from gpu_runtime.api.meta.names import derived
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels, stock_batch
from gpu_runtime.api.v1alpha1.operation import (
    NOTHING_DECIDED,
    Decisions,
    ObjectReference,
    Operation,
    OperationError,
    OperationSpec,
    OperationStatus,
    OperationType,
)
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from gpu_runtime.rest.errors import OperationConflict, Unavailable
from gpu_runtime.service.cluster import OPERATIONS, Cluster

UNFINISHED = labels.UNFINISHED


@dataclass(frozen=True)
class NewOperation:
    """An operation that a client requests, before its record exists."""

    type: OperationType
    operation_id: str
    request_hash: str
    request: Mapping[str, Any]
    owner: str = ""

    @property
    def record_name(self) -> str:
        return derived("op", self.type, self.operation_id)


class Operations:
    """Finds, begins and ends records. All decisions use live reads or writes with a precondition."""

    def __init__(self, cluster: Cluster, namespace: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.namespace = namespace
        self._cluster = cluster
        self._clock = clock

    async def find(self, type_: OperationType, operation_id: str) -> Operation | None:
        """The record, read live."""
        return await self.get_by_name(derived("op", type_, operation_id))

    async def get_by_name(self, name: str) -> Operation | None:
        try:
            return await self._cluster.get(OPERATIONS, Key(self.namespace, name))
        except NotFound:
            return None

    async def begin(
        self,
        wanted: NewOperation,
        *,
        makes: ObjectReference | None = None,
        batch: Key | None = None,
        decisions: Decisions = NOTHING_DECIDED,
    ) -> tuple[Operation, bool]:
        """The record, and whether this call created it. OperationConflict when the record has another payload."""
        now = self._clock.now()
        owner = {labels.OWNER: wanted.owner} if wanted.owner else {}
        record = Operation(
            metadata=ObjectMeta(
                name=wanted.record_name,
                namespace=self.namespace,
                labels={UNFINISHED: "true", **owner},
                annotations={notes.BATCH: str(batch)} if batch else {},
            ),
            spec=OperationSpec(
                type=wanted.type,
                operationID=wanted.operation_id,
                requestHash=wanted.request_hash,
                request=dict(wanted.request),
            ),
            status=OperationStatus(decisions=decisions, objects=[makes] if makes else [], lastSyncTime=now),
        )
        try:
            return await self._cluster.create(OPERATIONS, record), True
        except AlreadyExists:
            existing = await self.get_by_name(wanted.record_name)
        except Forbidden:
            existing = await self.get_by_name(wanted.record_name)
            if existing is None:  # else the quota is full because the record exists: quotas are checked before names
                raise
        except NotFound as error:
            raise Unavailable(f"the platform is not installed: namespace {self.namespace} is missing") from error
        if existing is None:
            raise Unavailable("the record was deleted during the request; send the request again")
        check_same(existing, wanted.request_hash)
        return existing, False

    async def save(self, record: Operation, **changes: Any) -> Operation:
        """Writes a changed status; Conflict when the record has changed since it was read."""
        status = replace(record.status, **changes, lastSyncTime=self._clock.now())
        return await self._cluster.replace(OPERATIONS, replace(record, status=status))

    async def succeed(self, record: Operation, **changes: Any) -> Operation:
        """The commit: one write sets phase and result and removes the request. Conflict when the record has changed."""
        now = self._clock.now()
        status = replace(record.status, phase="Succeeded", completionTime=now, lastSyncTime=now, error=None, **changes)
        return await self._finish(replace(record, spec=replace(record.spec, request={})), status, settled=True)

    async def fail(self, record: Operation, code: str, message: str, *, settled: bool, **changes: Any) -> Operation:
        """Sets the record to Failed in one write. Unless `settled`, the label unfinished stays: objects must be undone.

        The request stays in the record: when the cause is gone, the same request continues from here.
        """
        now = self._clock.now()
        error = OperationError(code=code, message=message)
        status = replace(record.status, phase="Failed", error=error, completionTime=now, lastSyncTime=now, **changes)
        return await self._finish(record, status, settled=settled)

    async def reopen(self, record: Operation) -> Operation:
        """Continues a failed operation where it stopped."""
        in_view = {**record.metadata.labels, UNFINISHED: "true"}
        status = replace(
            record.status, phase="Pending", error=None, completionTime=None, lastSyncTime=self._clock.now()
        )
        again = replace(record, metadata=replace(record.metadata, labels=in_view), status=status)
        return await self._cluster.replace(OPERATIONS, again)

    async def _finish(self, record: Operation, status: OperationStatus, *, settled: bool) -> Operation:
        kept = {name: value for name, value in record.metadata.labels.items() if name != UNFINISHED or not settled}
        done = replace(record, metadata=replace(record.metadata, labels=kept), status=status)
        return await self._cluster.replace(OPERATIONS, done)

    async def remove(self, record: Operation) -> bool:
        """Deletes this version of the record; False when the record has changed or is gone."""
        try:
            await self._cluster.delete(
                OPERATIONS,
                record.metadata.key,
                uid=record.metadata.uid,
                resource_version=record.metadata.resourceVersion,
            )
        except (NotFound, Conflict):
            return False
        return True


def check_same(record: Operation, request_hash: str) -> None:
    """OperationConflict when the record has another payload."""
    if record.spec.requestHash != request_hash:
        raise OperationConflict(
            f"operationID {record.spec.operationID} was used with a different request: choose another operationID"
        )


def batch_of(record: Operation) -> Key:
    """Namespace of a batch's units, and the prefix of their names."""
    return stock_batch.place(record)


def unfinished(record: Operation) -> bool:
    return record.status.phase in ("Pending", "Running")


def operation_metadata(record: Operation) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of the objects that an operation creates. They name its record."""
    owner = record.metadata.labels.get(labels.OWNER)
    return (
        {labels.OPERATION: record.metadata.name, **({labels.OWNER: owner} if owner else {})},
        {
            notes.OPERATION_ID: record.spec.operationID,
            notes.REQUEST_HASH: record.spec.requestHash,
            notes.OPERATION_UID: record.metadata.uid,
        },
    )


def made_by(meta: ObjectMeta, record: Operation) -> bool:
    """Whether this request created the object, also when the record was deleted and created again."""
    return (
        meta.annotations.get(notes.OPERATION_ID) == record.spec.operationID
        and meta.annotations.get(notes.REQUEST_HASH) == record.spec.requestHash
    )
