"""A claim on stock: an annotation, set and taken away by compare-and-set, that only ever names an Operation's UID."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.operation import Operation, StockChoice
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.service.cluster import GPU_UNITS, Cluster

# Beside the UID that decides: the name under which the record can be read.
CLAIMED_FOR = f"{GROUP}/claimed-for"


def holder(stock: GPUUnit) -> str:
    """UID of the Operation that claimed it; empty when it is free."""
    return stock.metadata.annotations.get(notes.CLAIMED_BY, "")


class Claims:
    """Claims, frees and consumes stock. Every write names the unit by UID and by the version that was judged."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def read(self, choice: StockChoice) -> GPUUnit | None:
        """The chosen unit as it is now; None when it is gone or another one has its name."""
        try:
            stock = await self._cluster.get(GPU_UNITS, Key(choice.namespace, choice.name))
        except NotFound:
            return None
        return stock if stock.metadata.uid == choice.uid else None

    async def take(self, choice: StockChoice, record: Operation, cached: GPUUnit | None) -> GPUUnit | None:
        """The unit, claimed for the record; None when another operation has it or it is gone."""
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
        """Takes the claim away that was judged; Conflict when the unit changed since."""
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
            except Conflict:  # a status was written since; the claim decides, not the version
                stock = await self.read(choice)
        return None

    async def _annotate(self, stock: GPUUnit, changes: dict[str, str] | dict[str, None]) -> GPUUnit:
        change = {"metadata": {**identity(stock.metadata), "annotations": changes}}
        return await self._cluster.patch(GPU_UNITS, stock.metadata.key, change)
