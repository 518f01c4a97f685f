"""The API in memory, which also records every write in a timeline and can lose answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from equipment.judge import Timeline
from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.decoding import Page
from gpu_runtime.kube.errors import Forbidden, Unreachable
from gpu_runtime.kube.resource import Resource
from gpu_runtime.service.cluster import GPU_UNITS
from unit.service.exploration.memory import Memory

T = TypeVar("T", bound=Object)


def never() -> bool:
    return False


class Recorded(Memory):
    """`loses` decides after each write whether its answer is lost; `quota`, if set, is the most units there may be;
    `page_size`, if set, is how many objects a page of a list has."""

    def __init__(self, loses: Callable[[], bool] = never) -> None:
        super().__init__()
        self.seen = Timeline()
        self.loses = loses
        self.quota: int | None = None
        self.page_size = 0

    async def page(self, query: Query[T], *, limit: int = 500, token: str | None = None) -> Page[T]:
        whole = await super().page(query, limit=limit)
        if not self.page_size:
            return whole
        begin = int(token or 0)
        end = begin + self.page_size
        more = str(end) if end < len(whole.items) else None
        return Page(whole.items[begin:end], [], whole.resource_version, more)

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        made = await super().create(resource, obj)
        self._answer()
        return made

    async def replace(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        written = await super().replace(resource, obj)
        self._answer()
        return written

    async def delete(
        self, resource: Resource[T], key: Key, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        gone = self.objects.get((resource.kind, key))
        await super().delete(resource, key, uid=uid, resource_version=resource_version)
        if gone is not None and gone.metadata.uid in self.seen.lives:
            self.seen.lives[gone.metadata.uid].gone = True
        self._answer()

    def put(self, resource: Resource[T], obj: Object) -> T:
        if self.quota is not None and resource.kind == "GPUUnit" and len(self.of_kind(GPU_UNITS)) >= self.quota:
            raise Forbidden(403, "Forbidden", "exceeded quota", causes=[], retry_after=None)
        return super().put(resource, obj)

    def _answer(self) -> None:
        if self.loses():
            raise Unreachable("the answer was lost")

    def _write(self, resource: Resource[T], obj: Any, meta: ObjectMeta) -> T:
        written = super()._write(resource, obj, meta)
        if resource.kind in ("GPUUnit", "Operation", "StockPool"):
            self.seen.see(_document(resource.kind, written))
        return written


def _document(kind: str, obj: Any) -> dict[str, Any]:
    """As much of an object as the judge looks at."""
    meta = obj.metadata
    metadata = {
        "uid": meta.uid,
        "name": meta.name,
        "namespace": meta.namespace,
        "resourceVersion": meta.resourceVersion,
        "annotations": meta.annotations,
    }
    document = {"kind": kind, "metadata": metadata, "status": {"phase": obj.status.phase}}
    if isinstance(obj, Operation):
        document["spec"] = {"type": obj.spec.type, "operationID": obj.spec.operationID}
        document["status"] = {"phase": obj.status.phase, "units": obj.status.units}
    return document
