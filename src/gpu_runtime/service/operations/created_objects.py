"""What became of what an operation made."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.service.reading import Reader


class CreatedObjects:
    """Knows whether the object of a finished operation is still there. Another of the same name is not it."""

    def __init__(self, units: Reader[GPUUnit], pools: Reader[StockPool]) -> None:
        self._readers: dict[str, Reader[GPUUnit] | Reader[StockPool]] = {"GPUUnit": units, "StockPool": pools}

    async def deleted(self, record: Operation) -> bool:
        """Confirmed by a live read; never for stock, which comes to be consumed."""
        if record.status.phase != "Succeeded" or not record.status.objects:
            return False
        made = record.status.objects[0]
        return not await self._readers[made.kind].has(Key(made.namespace, made.name), made.uid)
