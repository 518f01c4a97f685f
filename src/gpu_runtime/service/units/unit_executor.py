"""Operations of type CreateGPUUnit: a hand-over goes forward for its client, and is undone when nobody works on it."""

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
from gpu_runtime.rest.errors import AlreadyExists, Forbidden, InsufficientCapacity, Missing, Unavailable
from gpu_runtime.rest.requests import CreateGPUUnit
from gpu_runtime.service.cluster import Cluster
from gpu_runtime.service.operations.executor import Executor, Watched, object_lives
from gpu_runtime.service.operations.records import Ask, Operations, check_same, unfinished
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.claim import CLAIMED_FOR, Claims, holder
from gpu_runtime.service.units.handover import GivenUp, HandedOver, HandOver

ABANDONED = "nobody worked on it any more, so it was undone; send the request again"


class MadeBefore(Exception):
    """The unit of this request is there, and the record under which it was made is gone."""

    def __init__(self, unit: GPUUnit) -> None:
        super().__init__(str(unit.metadata.key))
        self.unit = unit


class UnitExecutor(Executor[CreateGPUUnit, HandedOver]):
    """Hands stock over before the client is answered. An abandoned hand-over is undone."""

    operation_type = "CreateGPUUnit"
    job_type = "create_gpu_unit"
    request_type = CreateGPUUnit
    most_turns = 3

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
            only = f"leave it out, or write {self._platform.stock_namespace}"
            raise Forbidden(f"stockNamespace: {request.stockNamespace} is no stock namespace: {only}")

    async def find(self, request: CreateGPUUnit) -> Operation | None:
        """Reads the record only when the cache has a unit of this name: most requests are new, and save the read."""
        if self._units.store.get(self._key(request)) is None:
            return None
        return await super().find(request)

    async def begin(self, ask: Ask, request: CreateGPUUnit) -> tuple[Operation, bool]:
        """The record, and whether it was made just now. Creating it is tried first: that alone tells for sure.

        MadeBefore or AlreadyExists when there is a unit of this name and no record.
        """
        key = self._key(request)
        if self._units.store.get(key) is not None:  # most often the work of this very request, which is sent again
            await self._check_made_before(key, ask.operation_id, ask.request_hash)
        try:
            await self._namespaces.require(key.namespace)
            return await self._handover.begin(ask, request, key.namespace)
        except (Missing, InsufficientCapacity, Unavailable):
            record = await super().find(request)
            if record is None:
                raise
            return record, False  # what was done already needs neither stock nor namespace any more

    async def execute(self, record: Operation) -> HandedOver | None:
        try:
            return await self._handover.follow(record)
        except GivenUp:
            return None
        except AlreadyExists:  # an earlier record of this request may have made it, unknown to the cache
            await self._check_made_before(self.makes(record), record.spec.operationID, record.spec.requestHash)
            return None

    async def replay(self, record: Operation) -> HandedOver | None:
        """Waits a moment for a hand-over that is under way, then follows the record itself."""
        if unfinished(record):
            await self._waiter.wait(record, self._platform.replay_seconds)
            current = await self._operations.named(record.metadata.name)
            if current is None:
                return None
            # The record may be new: another request may have taken the id since, and its record is not followed here.
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

    def held(self) -> Iterable[Watched]:
        """Claimed stock."""
        return [Watched(unit, partial(self._judge_claim, unit)) for unit in self._units.store if holder(unit)]

    async def lives(self, record: Operation) -> bool:
        return await object_lives(record, self._units)

    async def _judge_claim(self, stock: GPUUnit) -> None:
        """Frees a claim that no record stands for; goes forward with a committed one, back with a failed one."""
        name = stock.metadata.annotations.get(CLAIMED_FOR, "")
        record = await self._operations.named(name) if name else None
        if record is not None and record.spec.type != self.operation_type:
            return  # another type of operation claimed it, and its own executor judges
        choice = record.status.decisions.stock if record is not None else None
        if record is None or record.metadata.uid != holder(stock) or choice is None or choice.uid != stock.metadata.uid:
            self._log.info("freeing a claim that no operation stands for", stock=str(stock.metadata.key))
            try:
                await self._claims.free(stock)
            except (Conflict, NotFound):
                return  # it moved: the next look judges what it is then
            return
        match record.status.phase:
            case "Pending" | "Running":
                return  # the record itself is watched
            case "Succeeded":
                await self.complete(record)
            case "Failed":
                await self.undo(record)
            case _:
                assert_never(record.status.phase)

    def _key(self, request: CreateGPUUnit) -> Key:
        return Key(self._platform.allow(request.namespace or self._platform.instance_namespace), request.name)

    async def _check_made_before(self, key: Key, operation_id: str, request_hash: str) -> None:
        """MadeBefore when this request made the unit under a record that is gone; AlreadyExists when another did."""
        unit = await self._units.live(key)
        if unit is None:
            return
        told = unit.metadata.annotations
        if told.get(notes.OPERATION_ID) == operation_id:
            if not is_admitted(unit):
                return  # a leftover of an earlier try: it is removed on the way
            if told.get(notes.REQUEST_HASH) == request_hash:
                raise MadeBefore(unit)
        raise AlreadyExists(f"unit {key} exists and was not made by this request")

    def _known(self, record: Operation) -> GPUUnit | None:
        """The unit of a finished hand-over as the cache has it, live: a replay then costs one read."""
        made = record.status.objects[0]
        unit = self._units.cached(Key(made.namespace, made.name))
        if unit is None or unit.metadata.uid != made.uid or not is_admitted(unit):
            return None
        return unit
