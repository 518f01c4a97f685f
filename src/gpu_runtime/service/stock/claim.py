"""A claim on stock: an annotation with the UID of an Operation, set and removed by compare-and-set."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.operation import Operation, StockChoice
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.service.cluster import GPU_UNITS, Cluster

# Name of the claiming record, to read it. The UID decides who holds the claim.
CLAIMED_FOR = f"{GROUP}/claimed-for"


def holder(stock: GPUUnit) -> str:
    """UID of the Operation that claimed the unit; empty when the unit is free."""
    return stock.metadata.annotations.get(notes.CLAIMED_BY, "")


class Claims:
    """Claims, frees and consumes stock. Preconditions of each write: the UID and the resourceVersion that was read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def read(self, choice: StockChoice) -> GPUUnit | None:
        """The chosen unit, read live; None when it is gone or another unit has its name."""
        try:
            stock = await self._cluster.get(GPU_UNITS, Key(choice.namespace, choice.name))
        except NotFound:
            return None
        return stock if stock.metadata.uid == choice.uid else None

    async def take(self, choice: StockChoice, record: Operation, cached: GPUUnit | None) -> GPUUnit | None:
        """Claims the unit for the record; None when another operation holds it or it is gone."""
        stock = cached if cached is not None and not holder(cached) else await self.read(choice)
        while stock is not None and stock.metadata.deletionTimestamp is None:
            if holder(stock):
                return stock if holder(stock) == record.metadata.uid else None
            claim = {notes.CLAIMED_BY: record.metadata.uid, CLAIMED_FOR: record.metadata.name}
            try:
                return await self._annotate(stock, claim)
            except NotFound:
                return None
            except Conflict:
                stock = await self.read(choice)
        return None

    async def free(self, stock: GPUUnit) -> None:
        """Removes the claim; Conflict when the unit has changed since it was read."""
        await self._annotate(stock, {notes.CLAIMED_BY: None, CLAIMED_FOR: None})

    async def release(self, choice: StockChoice, uid: str) -> None:
        """Frees the chosen unit if the operation with this UID holds it."""
        stock = await self.read(choice)
        while stock is not None and holder(stock) == uid:
            try:
                return await self.free(stock)
            except NotFound:
                return None
            except Conflict:
                stock = await self.read(choice)
        return None

    async def consume(self, choice: StockChoice, uid: str, stock: GPUUnit | None) -> None:
        """Deletes the chosen unit if the committed operation with this UID holds it."""
        stock = stock or await self.read(choice)
        while stock is not None and holder(stock) == uid and stock.metadata.deletionTimestamp is None:
            meta = stock.metadata
            try:
                return await self._cluster.delete(
                    GPU_UNITS, meta.key, uid=meta.uid, resource_version=meta.resourceVersion
                )
            except NotFound:
                return None
            except Conflict:  # a status was written in between; only the claim matters
                stock = await self.read(choice)
        return None

    async def _annotate(self, stock: GPUUnit, changes: dict[str, str] | dict[str, None]) -> GPUUnit:
        change = {"metadata": {**identity(stock.metadata), "annotations": changes}}
        return await self._cluster.patch(GPU_UNITS, stock.metadata.key, change)
