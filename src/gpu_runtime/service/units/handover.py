"""The hand-over: one stock unit becomes one running unit, or nothing changes.

Each executor follows the operation's record. Several executors may run at once, and each may die at any line. Then the
next executor undoes the hand-over if the record is not committed, and completes it if it is. The commit is
`Operations.succeed` in `service/operations/records.py`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.operation import Decisions, ObjectReference, Operation, StockChoice
from gpu_runtime.api.v1alpha1.provenance import is_admitted, provenance
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.rest.errors import (
    AlreadyExists,
    Clash,
    InsufficientCapacity,
    Missing,
    OperationConflict,
    ServiceError,
    Unavailable,
)
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUUnit
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.kubernetes_errors import CLIENT_ERRORS, refusal
from gpu_runtime.service.operations.after_reply import Later, at_once
from gpu_runtime.service.operations.executor import Done
from gpu_runtime.service.operations.records import NewOperation, Operations, made_by, operation_metadata
from gpu_runtime.service.stock.claim import Claims
from gpu_runtime.service.stock.picker import StockPicker
from gpu_runtime.service.stock.unit_size import UnitSize
from gpu_runtime.service.storages.reservations import Reservations, held_by_operation

MAX_READS = 20


class GivenUp(Exception):
    """The record is gone or Failed: another executor gave the operation up. The request may begin again."""


@dataclass(frozen=True)
class HandedOver(Done):
    """The committed record and its unit; the unit is None when it has been deleted."""

    unit: GPUUnit | None


@dataclass
class HandOverState:
    """What one executor knows: the record as last read, and the UIDs of stock that was taken by others."""

    record: Operation
    tried: set[str] = field(default_factory=set)
    reads: int = 0
    reserved_for: str = ""
    """UID of the record that the storages were reserved for. Another record of the same name reserves again."""

    def count_read(self) -> None:
        """Unavailable after too many reads of the record: the obstacle will not go away soon."""
        self.reads += 1
        if self.reads > MAX_READS:
            raise Unavailable("the unit of an earlier attempt is still being deleted; send the request again")

    @property
    def choice(self) -> StockChoice:
        choice = self.record.status.decisions.stock
        assert choice is not None, "a record of a hand-over is created with its choice"
        return choice


class HandOver:
    """The steps of an operation of type CreateGPUUnit, and how they are undone."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        picker: StockPicker,
        storages: Reservations,
        later: Later = at_once,
    ) -> None:
        self._cluster = cluster
        self._storages = storages
        self._operations = operations
        self._picker = picker
        self._later = later
        self._claims = Claims(cluster)

    async def begin(self, wanted: NewOperation, request: CreateGPUUnit, namespace: str) -> tuple[Operation, bool]:
        """Chooses stock and writes the record. Nothing else may be written before the record exists."""
        await self._storages.check(namespace, request.storageMounts)
        choice = await self._picker.choose(request.specName)
        makes = ObjectReference(kind="GPUUnit", namespace=namespace, name=request.name)
        return await self._operations.begin(wanted, makes=makes, decisions=Decisions(stock=choice))

    async def follow(self, record: Operation) -> HandedOver:
        """Continues the record until it is committed and complete; GivenUp or a ServiceError otherwise."""
        state = HandOverState(record)
        while state.record.status.phase != "Succeeded":
            if state.record.status.phase == "Failed":
                raise GivenUp
            if not await self._reserve(state):
                continue
            choice = state.choice
            stock = await self._claims.take(choice, state.record, self._picker.find(choice))
            if stock is None:
                await self._choose_again(state)
                continue
            unit = await self._create(state, stock)
            if unit is None:
                await self._read_again(state)
                continue
            reference = replace(state.record.status.objects[0], uid=unit.metadata.uid)
            try:
                committed = await self._operations.succeed(state.record, objects=[reference])
            except (kube.Conflict, kube.NotFound):
                await self._read_again(state)
                continue
            return HandedOver(committed, await self.complete(committed, unit, stock))
        return HandedOver(state.record, await self.complete(state.record))

    async def complete(
        self, record: Operation, unit: GPUUnit | None = None, stock: GPUUnit | None = None
    ) -> GPUUnit | None:
        """After the commit: makes the unit live and deletes the stock. Any executor may repeat it.

        The reply needs only the live unit. Only the unit's controller waits until the stock is gone.
        """
        choice = HandOverState(record).choice
        live = await self._admit(record, choice, unit)
        await self._later(lambda: self._claims.consume(choice, record.metadata.uid, stock))
        return live

    async def undo(self, record: Operation) -> None:
        """For a Failed record: deletes the inert unit, frees the claim, deletes the record. Safe to repeat."""
        unit = await self._unit(record)
        if unit is not None and _made_under(unit, record):
            with suppress(kube.NotFound, kube.Conflict):
                await self._cluster.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)
        made, request = record.status.objects[0], parse(CreateGPUUnit, record.spec.request)
        await self._storages.release(made.namespace, request.storageMounts, held_by_operation(record, made.name))
        await self._claims.release(HandOverState(record).choice, record.metadata.uid)
        await self._operations.remove(record)

    async def give_up(self, record: Operation, code: str, message: str) -> None:
        """Sets the record to Failed and undoes it. Does nothing if the record has changed since it was read."""
        try:
            failed = await self._operations.fail(record, code, message, settled=False)
        except (kube.Conflict, kube.NotFound):
            return
        await self.undo(failed)

    async def _reserve(self, state: HandOverState) -> bool:
        """Reserves the storages before the unit exists that mounts them; False when the record must be read again."""
        record = state.record
        if state.reserved_for == record.metadata.uid:
            return True
        made, request = record.status.objects[0], parse(CreateGPUUnit, record.spec.request)
        try:
            await self._storages.reserve(made.namespace, request.storageMounts, held_by_operation(record, made.name))
        except (Missing, Clash) as refused:
            await self._fail(state, refused)
            return False
        state.reserved_for = record.metadata.uid
        return True

    async def _choose_again(self, state: HandOverState) -> None:
        """Another operation has the chosen unit. Writes the next choice into the record before it is claimed."""
        state.tried.add(state.choice.uid)
        request = parse(CreateGPUUnit, state.record.spec.request)
        try:
            choice = await self._picker.choose(request.specName, state.tried)
        except InsufficientCapacity as shortage:
            await self._fail(state, shortage)
            return
        try:
            state.record = await self._operations.save(state.record, decisions=Decisions(stock=choice))
        except (kube.Conflict, kube.NotFound):
            await self._read_again(state)

    async def _create(self, state: HandOverState, stock: GPUUnit) -> GPUUnit | None:
        """Creates the inert unit; None when the record must be read again."""
        wanted = inert_unit(state.record, stock)
        try:
            return await self._cluster.create(GPU_UNITS, wanted)
        except kube.AlreadyExists:
            return await self._existing(state, wanted)
        except CLIENT_ERRORS as error:
            # The API server checks quotas before names: the quota may be full because our own unit already exists.
            unit = await self._unit(state.record)
            if unit is not None and made_by(unit.metadata, state.record):
                return await self._existing(state, wanted)
            await self._fail(state, refusal(error))
            return None

    async def _existing(self, state: HandOverState, wanted: GPUUnit) -> GPUUnit | None:
        """Handles a unit that has the wanted name: of this record, of an earlier attempt, or of another request."""
        record = state.record
        unit = await self._unit(record)
        if unit is None:
            return None
        if _made_under(unit, record):
            if UnitSize.of(unit.spec) != UnitSize.of(wanted.spec):
                await self._fail(state, Clash("the stock of this spec has changed its size; send the request again"))
                return None
            return unit
        if made_by(unit.metadata, record) and not is_admitted(unit):
            await self._remove_leftover(record, unit)
            return None
        taken = f"unit {wanted.metadata.key} exists; this request did not create it"
        await self._fail(state, AlreadyExists(taken))
        return None

    async def _remove_leftover(self, record: Operation, unit: GPUUnit) -> None:
        """Deletes an inert unit of an earlier record of this operation. UIDs are never reused: that record is gone."""
        current = await self._operations.get_by_name(record.metadata.name)
        if current is None or current.metadata.uid != record.metadata.uid:
            return  # our own record is gone: the unit may belong to its successor
        with suppress(kube.NotFound, kube.Conflict):
            await self._cluster.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)

    async def _fail(self, state: HandOverState, error: ServiceError) -> None:
        """Fails the operation with this error, unless the record has changed: then reads the record again."""
        try:
            failed = await self._operations.fail(state.record, error.code, error.message, settled=False)
        except (kube.Conflict, kube.NotFound):
            await self._read_again(state)
            return
        await self.undo(failed)
        raise error

    async def _read_again(self, state: HandOverState) -> None:
        state.count_read()
        known = state.record
        current = await self._operations.get_by_name(known.metadata.name)
        if current is None:
            raise GivenUp
        if current.spec.requestHash != known.spec.requestHash:
            raise OperationConflict(f"operationID {known.spec.operationID} is now used with a different request")
        state.record = current

    async def _admit(self, record: Operation, choice: StockChoice, unit: GPUUnit | None) -> GPUUnit | None:
        """Annotates the unit with its source stock, as the committed record says. This makes the unit live."""
        unit = unit or await self._unit(record)
        while unit is not None and _made_under(unit, record):
            if is_admitted(unit):
                return unit
            source = {"metadata": {**identity(unit.metadata), "annotations": provenance(choice)}}
            try:
                return await self._cluster.patch(GPU_UNITS, unit.metadata.key, source)
            except kube.NotFound:
                return None
            except kube.Conflict:
                unit = await self._unit(record)
        return None

    async def _unit(self, record: Operation) -> GPUUnit | None:
        made = record.status.objects[0]
        try:
            return await self._cluster.get(GPU_UNITS, Key(made.namespace, made.name))
        except kube.NotFound:
            return None


def inert_unit(record: Operation, stock: GPUUnit) -> GPUUnit:
    """The requested unit with the size of the stock. It has no provenance yet, so the controller creates nothing."""
    request = parse(CreateGPUUnit, record.spec.request)
    where = record.status.objects[0]
    made_labels, made_notes = operation_metadata(record)
    return GPUUnit(
        metadata=ObjectMeta(
            name=where.name,
            namespace=where.namespace,
            labels={
                labels.APP_NAME: labels.GPU_UNIT_APP,
                labels.MANAGED_BY: labels.MANAGER,
                labels.UNIT: where.name,
                labels.SPEC_NAME: request.specName,
                **made_labels,
            },
            annotations=made_notes,
        ),
        spec=GPUUnitSpec(
            specName=request.specName,
            image=request.image,
            cpu=stock.spec.cpu,
            memory=stock.spec.memory,
            gpu=stock.spec.gpu,
            template=request.template,
            access=request.access,
            storageMounts=request.storageMounts,
            serverless=request.serverless,
        ),
    )


def _made_under(unit: GPUUnit, record: Operation) -> bool:
    return unit.metadata.annotations.get(notes.OPERATION_UID) == record.metadata.uid
