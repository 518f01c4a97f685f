"""Stock units: seeded under names that belong to the operation, so that any replica can go on where another stopped."""

from __future__ import annotations

import asyncio

from gpu_runtime.api.meta.names import derived, slug
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.client import Query
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, Cluster
from gpu_runtime.service.envelope import ENVELOPE, Envelope
from gpu_runtime.service.errors import AlreadyExists, ServiceError, SpecConflict
from gpu_runtime.service.operations import UNFINISHED, Operations, batch_of, made_by, marks
from gpu_runtime.service.refusals import CLIENT_ERRORS, refusal
from gpu_runtime.service.requests import CreateStockUnits
from gpu_runtime.service.rules import parse
from gpu_runtime.service.shelf import Shelf

CONCURRENCY = 8


class Seeding:
    """Executes operations of type CreateStockUnits."""

    def __init__(self, cluster: Cluster, operations: Operations, shelf: Shelf, namespace: str) -> None:
        self._cluster = cluster
        self._operations = operations
        self._shelf = shelf
        self._namespace = namespace

    def check_cached(self, request: CreateStockUnits) -> None:
        """SpecConflict when the cache has stock of this spec in another envelope: refused before a write."""
        wanted = Envelope.of(request)
        for unit in self._shelf.cached(request.specName):
            if unit.metadata.deletionTimestamp is None and Envelope.of(unit.spec) != wanted:
                raise _conflict(request.specName, Envelope.of(unit.spec), wanted)

    async def check_live(self, record: Operation) -> None:
        """The same after the record was written: whoever seeds at the same time sees our record, or we see theirs."""
        request = parse(CreateStockUnits, record.spec.request)
        wanted = Envelope.of(request)
        others = f"{labels.SPEC_NAME}={request.specName},{ENVELOPE}!={wanted.digest}"
        stock = await self._cluster.page(Query(GPU_UNITS, self._namespace, labels=others), limit=1)
        for unit in stock.items:
            raise _conflict(request.specName, Envelope.of(unit.spec), wanted)
        records = await self._cluster.page(Query(OPERATIONS, record.metadata.namespace, labels=UNFINISHED))
        for other in records.items:
            if other.spec.type != "CreateStockUnits" or other.metadata.uid == record.metadata.uid:
                continue
            rival = parse(CreateStockUnits, other.spec.request)
            if rival.specName == request.specName and Envelope.of(rival) != wanted:
                raise _conflict(request.specName, Envelope.of(rival), wanted)

    async def execute(self, record: Operation, *, resumed: bool) -> Operation:
        """Makes the units that are missing and ends the record; safe to run by several at once, and to repeat."""
        request = parse(CreateStockUnits, record.spec.request)
        wanted = [stock_unit(record, request, ordinal) for ordinal in range(1, request.replicas + 1)]
        if resumed:
            consumed = await self._consumed()
            wanted = [unit for unit in wanted if unit.metadata.name not in consumed]
        try:
            if resumed:  # whoever wrote the record may have died before it could look
                await self.check_live(record)
            await self._make(record, wanted)
        except CLIENT_ERRORS as error:
            return await self._fail(record, refusal(error))
        except ServiceError as error:
            return await self._fail(record, error)
        try:
            return await self._operations.succeed(record)
        except (kube.Conflict, kube.NotFound):
            return await self._operations.named(record.metadata.name) or record

    async def _make(self, record: Operation, units: list[GPUUnit]) -> None:
        turn = asyncio.Semaphore(CONCURRENCY)

        async def make(unit: GPUUnit) -> None:
            async with turn:
                try:
                    await self._cluster.create(GPU_UNITS, unit)
                except kube.AlreadyExists:
                    await self._check_ours(record, unit.metadata.key)

        results = await asyncio.gather(*(make(unit) for unit in units), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _check_ours(self, record: Operation, key: Key) -> None:
        try:
            unit = await self._cluster.get(GPU_UNITS, key)
        except kube.NotFound:
            return  # consumed between the two calls
        if not made_by(unit.metadata, record):
            raise AlreadyExists(f"stock unit {key} exists and was not made by operationID {record.spec.operationID}")

    async def _fail(self, record: Operation, error: ServiceError) -> Operation:
        message = f"{error.message}; units made so far stay, and the same request goes on from there"
        try:
            return await self._operations.fail(record, error.code, message, settled=True)
        except (kube.Conflict, kube.NotFound):
            return await self._operations.named(record.metadata.name) or record

    async def _consumed(self) -> set[str]:
        """Names of stock that hand-overs took: made once, it is not made again when somebody goes on with the batch."""
        names: set[str] = set()
        token: str | None = None
        while True:
            page = await self._cluster.page(Query(OPERATIONS, self._operations.namespace), token=token)
            names |= {record.status.decisions.stock.name for record in page.items if record.status.decisions.stock}
            token = page.token
            if not token:
                return names


def batch_prefix(request: CreateStockUnits) -> str:
    """What the names of the operation's units begin with."""
    return derived(f"stock-{slug(request.specName)}"[:30], "CreateStockUnits", request.operationID, limit=57)


def stock_unit(record: Operation, request: CreateStockUnits, ordinal: int) -> GPUUnit:
    """One reservation: built-in image, nothing but its envelope."""
    where = batch_of(record)
    name = f"{where.name}-{ordinal:03d}"
    made_labels, made_notes = marks(record)
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=where.namespace,
            labels={
                labels.APP_NAME: labels.GPU_UNIT_APP,
                labels.MANAGED_BY: labels.MANAGER,
                labels.UNIT: name,
                labels.SPEC_NAME: request.specName,
                ENVELOPE: Envelope.of(request).digest,
                **made_labels,
            },
            annotations={
                **made_notes,
                notes.STOCK_ORDINAL: str(ordinal),
                notes.STOCK_REPLICAS: str(request.replicas),
            },
        ),
        spec=GPUUnitSpec(specName=request.specName, cpu=request.cpu, memory=request.memory, gpu=request.gpu),
    )


def _conflict(spec: str, there: Envelope, wanted: Envelope) -> SpecConflict:
    return SpecConflict(
        f"spec {spec} stands for ({there}) and cannot also stand for ({wanted}): use another spec name, "
        "or delete the stock of this one first"
    )
