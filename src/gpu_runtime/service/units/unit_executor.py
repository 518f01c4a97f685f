"""Operations of type CreateGPUUnit: a request executes the hand-over; the sweeper undoes an abandoned one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import assert_never

import structlog

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.provenance import is_admitted
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.rest.errors import AlreadyExists, Clash, Forbidden, Missing, Unavailable
from gpu_runtime.rest.requests import CreateGPUUnit
from gpu_runtime.service.cluster import Cluster
from gpu_runtime.service.operations.executor import Executor, HeldObject, object_lives
from gpu_runtime.service.operations.records import NewOperation, Operations, check_same, unfinished
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.claim import CLAIMED_FOR, Claims, holder
from gpu_runtime.service.units.handover import GivenUp, HandedOver, HandOver

ABANDONED = "the operation was abandoned and has been undone; send the request again"


class MadeBefore(Exception):
    """The unit of this request exists, and its record is gone."""

    def __init__(self, unit: GPUUnit) -> None:
        super().__init__(str(unit.metadata.key))
        self.unit = unit


class UnitExecutor(Executor[CreateGPUUnit, HandedOver]):
    """Hands stock over before the reply. An abandoned hand-over is undone."""

    operation_type = "CreateGPUUnit"
    job_type = "create_gpu_unit"
    request_type = CreateGPUUnit
    max_attempts = 3

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        units: Reader[GPUUnit],
        namespaces: Namespaces,
        handover: HandOver,
        waiter: OperationWaiter,
    ) -> None:
        super().__init__(operations)
        self._platform = platform
        self._units = units
        self._namespaces = namespaces
        self._handover = handover
        self._waiter = waiter
        self._claims = Claims(cluster)
        self._log = structlog.get_logger("handover")

    def check(self, request: CreateGPUUnit) -> None:
        self._key(request)
        if request.stockNamespace not in (None, self._platform.stock_namespace):
            only = f"omit it, or use {self._platform.stock_namespace}"
            raise Forbidden(f"stockNamespace: {request.stockNamespace} is not a stock namespace: {only}")

    async def find(self, request: CreateGPUUnit) -> Operation | None:
        """Reads the record only when the cache has a unit with this name: most requests are new and save the read."""
        if self._units.store.get(self._key(request)) is None:
            return None
        return await super().find(request)

    async def begin(self, wanted: NewOperation, request: CreateGPUUnit) -> tuple[Operation, bool]:
        """The record, and whether this call created it. Tries to create it first: only that is a reliable test.

        MadeBefore or AlreadyExists when a unit with this name exists without a record.
        """
        key = self._key(request)
        if self._units.store.get(key) is not None:  # usually this request was sent before and created the unit
            await self._check_made_before(key, wanted.operation_id, wanted.request_hash)
        try:
            await self._namespaces.require(key.namespace)
            return await self._handover.begin(wanted, request, key.namespace)
        except (Missing, Clash, Unavailable):
            record = await super().find(request)
            if record is None:
                raise
            return record, False  # an operation that has begun needs no new stock, and may hold the storages itself

    async def execute(self, record: Operation) -> HandedOver | None:
        try:
            return await self._handover.follow(record)
        except GivenUp:
            return None
        except AlreadyExists:  # an earlier record of this request may have created the unit
            await self._check_made_before(self.object_key(record), record.spec.operationID, record.spec.requestHash)
            return None

    async def replay(self, record: Operation) -> HandedOver | None:
        """Waits briefly for a hand-over that is running, then continues the record itself."""
        if unfinished(record):
            await self._waiter.wait(record, self._platform.replay_seconds)
            current = await self._operations.get_by_name(record.metadata.name)
            if current is None:
                return None
            # The id may belong to a new record of another request by now. That record must not be executed here.
            check_same(current, record.spec.requestHash)
            record = current
        if record.status.phase == "Failed":
            await self._handover.undo(record)
            return None
        if record.status.phase == "Succeeded" and (known := self._known(record)) is not None:
            return HandedOver(record, known)
        return await self.execute(record)

    async def resume(self, record: Operation) -> None:
        self._log.info("undoing an abandoned hand-over", operation_id=record.spec.operationID)
        await self._handover.give_up(record, "service_unavailable", ABANDONED)

    async def complete(self, record: Operation) -> None:
        await self._handover.complete(record)

    async def undo(self, record: Operation) -> None:
        await self._handover.undo(record)

    def held(self) -> Iterable[HeldObject]:
        """Claimed stock."""
        return [HeldObject(unit, partial(self._judge_claim, unit)) for unit in self._units.store if holder(unit)]

    async def lives(self, record: Operation) -> bool:
        return await object_lives(record, self._units)

    async def _judge_claim(self, stock: GPUUnit) -> None:
        """Frees a claim without a record. Completes the hand-over if the record is committed, undoes it if Failed."""
        name = stock.metadata.annotations.get(CLAIMED_FOR, "")
        record = await self._operations.get_by_name(name) if name else None
        if record is not None and record.spec.type != self.operation_type:
            return  # an operation of another type claimed it: its executor handles the claim
        choice = record.status.decisions.stock if record is not None else None
        if record is None or record.metadata.uid != holder(stock) or choice is None or choice.uid != stock.metadata.uid:
            self._log.info("freeing a claim whose operation is gone", stock=str(stock.metadata.key))
            try:
                await self._claims.free(stock)
            except (Conflict, NotFound):
                return  # it has changed: the next sweep looks again
            return
        match record.status.phase:
            case "Pending" | "Running":
                return  # the sweeper handles the record itself
            case "Succeeded":
                await self.complete(record)
            case "Failed":
                await self.undo(record)
            case _:
                assert_never(record.status.phase)

    def _key(self, request: CreateGPUUnit) -> Key:
        return Key(self._platform.allow(request.namespace or self._platform.instance_namespace), request.name)

    async def _check_made_before(self, key: Key, operation_id: str, request_hash: str) -> None:
        """MadeBefore when this request created the unit and its record is gone; AlreadyExists when another did."""
        unit = await self._units.live(key)
        if unit is None:
            return
        annotations = unit.metadata.annotations
        if annotations.get(notes.OPERATION_ID) == operation_id:
            if not is_admitted(unit):
                return  # a leftover of an earlier attempt: the hand-over deletes it
            if annotations.get(notes.REQUEST_HASH) == request_hash:
                raise MadeBefore(unit)
        raise AlreadyExists(f"unit {key} exists; this request did not create it")

    def _known(self, record: Operation) -> GPUUnit | None:
        """The cached unit of a finished hand-over, if it is live: then a replay costs one read."""
        made = record.status.objects[0]
        unit = self._units.cached(Key(made.namespace, made.name))
        if unit is None or unit.metadata.uid != made.uid or not is_admitted(unit):
            return None
        return unit
