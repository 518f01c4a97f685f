"""The hand-over: one stock unit becomes one running unit, or nothing happened.

Every executor follows the operation's record: several may live at once, and each may stop for ever at any point. Before
the commit all is undone, after it all goes forward; both by whoever comes next.
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
    OperationConflict,
    ServiceError,
    Unavailable,
)
from gpu_runtime.rest.parsing import parse
from gpu_runtime.rest.requests import CreateGPUUnit
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.operations.after_reply import Later, at_once
from gpu_runtime.service.operations.executor import Done
from gpu_runtime.service.operations.records import Ask, Operations, made_by, marks
from gpu_runtime.service.refusals import CLIENT_ERRORS, refusal
from gpu_runtime.service.stock.claim import Claims
from gpu_runtime.service.stock.picker import StockPicker
from gpu_runtime.service.stock.unit_size import UnitSize

MOST_TURNS = 20


class GivenUp(Exception):
    """The record that was followed is gone or failed: somebody gave the operation up. It may begin anew."""


@dataclass(frozen=True)
class HandedOver(Done):
    """The committed record and its unit; None when the unit was deleted since."""

    unit: GPUUnit | None


@dataclass
class Walk:
    """What one executor remembers: the record as last read, and the stock that it found taken."""

    record: Operation
    tried: set[str] = field(default_factory=set)
    turns: int = 0

    def turn(self) -> None:
        """Counts how often the record was read anew: what stands in the way for so long will not go at once."""
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise Unavailable("what an earlier try left behind is still being removed; send the request again")

    @property
    def choice(self) -> StockChoice:
        choice = self.record.status.decisions.stock
        assert choice is not None, "a record of a hand-over is created with its choice"
        return choice


class HandOver:
    """The steps of an operation of type CreateGPUUnit, forward and back."""

    def __init__(self, cluster: Cluster, operations: Operations, picker: StockPicker, later: Later = at_once) -> None:
        self._cluster = cluster
        self._operations = operations
        self._picker = picker
        self._later = later
        self._claims = Claims(cluster)

    async def begin(self, ask: Ask, request: CreateGPUUnit, namespace: str) -> tuple[Operation, bool]:
        """Chooses stock and writes the record; nothing else may be done before it is there."""
        choice = await self._picker.choose(request.specName)
        makes = ObjectReference(kind="GPUUnit", namespace=namespace, name=request.name)
        return await self._operations.begin(ask, makes=makes, decisions=Decisions(stock=choice))

    async def follow(self, record: Operation) -> HandedOver:
        """Does what the record says, until it is committed and done; GivenUp or a ServiceError otherwise."""
        walk = Walk(record)
        while walk.record.status.phase != "Succeeded":
            if walk.record.status.phase == "Failed":
                raise GivenUp
            choice = walk.choice
            stock = await self._claims.take(choice, walk.record, self._picker.find(choice))
            if stock is None:
                await self._choose_again(walk)
                continue
            unit = await self._create(walk, stock)
            if unit is None:
                await self._read_again(walk)
                continue
            reference = replace(walk.record.status.objects[0], uid=unit.metadata.uid)
            try:
                committed = await self._operations.succeed(walk.record, objects=[reference])
            except (kube.Conflict, kube.NotFound):
                await self._read_again(walk)
                continue
            return HandedOver(committed, await self.complete(committed, unit, stock))
        return HandedOver(walk.record, await self.complete(walk.record))

    async def complete(
        self, record: Operation, unit: GPUUnit | None = None, stock: GPUUnit | None = None
    ) -> GPUUnit | None:
        """After the commit: the unit becomes live, the stock goes. Safe to repeat, by anyone.

        A live unit is all that a client has to be told of: nobody waits for the stock's end but the unit's controller.
        """
        choice = Walk(record).choice
        live = await self._admit(record, choice, unit)
        await self._later(lambda: self._claims.consume(choice, record.metadata.uid, stock))
        return live

    async def undo(self, record: Operation) -> None:
        """After the record says Failed: removes the inert unit, frees the claim, removes the record. Safe to repeat."""
        unit = await self._unit(record)
        if unit is not None and _made_under(unit, record):
            with suppress(kube.NotFound, kube.Conflict):
                await self._cluster.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)
        await self._claims.release(Walk(record).choice, record.metadata.uid)
        await self._operations.remove(record)

    async def give_up(self, record: Operation, code: str, message: str) -> None:
        """Moves the record to Failed, on the version that was judged, and undoes it; nothing if it moved on."""
        try:
            failed = await self._operations.fail(record, code, message, settled=False)
        except (kube.Conflict, kube.NotFound):
            return
        await self.undo(failed)

    async def _choose_again(self, walk: Walk) -> None:
        """Somebody else has the chosen unit: the next choice goes into the record before it is acted on."""
        walk.tried.add(walk.choice.uid)
        request = parse(CreateGPUUnit, walk.record.spec.request)
        try:
            choice = await self._picker.choose(request.specName, walk.tried)
        except InsufficientCapacity as shortage:
            await self._fail(walk, shortage)
            return
        try:
            walk.record = await self._operations.save(walk.record, decisions=Decisions(stock=choice))
        except (kube.Conflict, kube.NotFound):
            await self._read_again(walk)

    async def _create(self, walk: Walk, stock: GPUUnit) -> GPUUnit | None:
        """The unit, inert; None when the record has to be read again."""
        wanted = inert_unit(walk.record, stock)
        try:
            return await self._cluster.create(GPU_UNITS, wanted)
        except kube.AlreadyExists:
            return await self._existing(walk, wanted)
        except CLIENT_ERRORS as error:
            # The API server checks quotas before names: a quota that our own unit fills hides AlreadyExists.
            unit = await self._unit(walk.record)
            if unit is not None and made_by(unit.metadata, walk.record):
                return await self._existing(walk, wanted)
            await self._fail(walk, refusal(error))
            return None

    async def _existing(self, walk: Walk, wanted: GPUUnit) -> GPUUnit | None:
        """A unit of the wanted name: ours, an earlier try's, or somebody else's."""
        record = walk.record
        unit = await self._unit(record)
        if unit is None:
            return None
        if _made_under(unit, record):
            if UnitSize.of(unit.spec) != UnitSize.of(wanted.spec):
                await self._fail(
                    walk, Clash("the stock of this spec changed its size meanwhile; send the request again")
                )
                return None
            return unit
        if made_by(unit.metadata, record) and not is_admitted(unit):
            await self._remove_leftover(record, unit)
            return None
        taken = f"unit {wanted.metadata.key} exists and was not made by this request"
        await self._fail(walk, AlreadyExists(taken))
        return None

    async def _remove_leftover(self, record: Operation, unit: GPUUnit) -> None:
        """An inert unit of an earlier record of this operation: that record is gone for ever, UIDs never come back."""
        current = await self._operations.named(record.metadata.name)
        if current is None or current.metadata.uid != record.metadata.uid:
            return  # ours is the one that is gone: the unit may belong to its successor
        with suppress(kube.NotFound, kube.Conflict):
            await self._cluster.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)

    async def _fail(self, walk: Walk, error: ServiceError) -> None:
        """Ends the operation with this error if it still is where we think; else reads what became of it."""
        try:
            failed = await self._operations.fail(walk.record, error.code, error.message, settled=False)
        except (kube.Conflict, kube.NotFound):
            await self._read_again(walk)
            return
        await self.undo(failed)
        raise error

    async def _read_again(self, walk: Walk) -> None:
        walk.turn()
        known = walk.record
        current = await self._operations.named(known.metadata.name)
        if current is None:
            raise GivenUp
        if current.spec.requestHash != known.spec.requestHash:
            raise OperationConflict(f"operationID {known.spec.operationID} is used for another request by now")
        walk.record = current

    async def _admit(self, record: Operation, choice: StockChoice, unit: GPUUnit | None) -> GPUUnit | None:
        """Writes where the unit came from, as the committed record has it: from now on it is live."""
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
    """The unit that the record asks for, of the same size as the stock; without provenance nothing is built for it."""
    request = parse(CreateGPUUnit, record.spec.request)
    where = record.status.objects[0]
    made_labels, made_notes = marks(record)
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
        ),
    )


def _made_under(unit: GPUUnit, record: Operation) -> bool:
    return unit.metadata.annotations.get(notes.OPERATION_UID) == record.metadata.uid
