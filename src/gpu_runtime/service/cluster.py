"""The API server calls that the use cases need, and the kinds that they work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.api.v1alpha1.crds import GPU_FUNCTION, GPU_STORAGE, GPU_UNIT, OPERATION, STOCK_POOL
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.decoding import Page
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)


GPU_UNITS = Resource.of(GPU_UNIT)
GPU_FUNCTIONS = Resource.of(GPU_FUNCTION)
GPU_STORAGES = Resource.of(GPU_STORAGE)
STOCK_POOLS = Resource.of(STOCK_POOL)
OPERATIONS = Resource.of(OPERATION)


class Cluster(Protocol):
    """The part of `kube.Client` that is used here. Tests implement it to choose the order of the calls."""

    async def get(self, resource: Resource[T], key: Key) -> T: ...

    async def page(self, query: Query[T], *, limit: int = ..., token: str | None = None) -> Page[T]: ...

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T: ...

    async def replace(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T: ...

    async def patch(self, resource: Resource[T], key: Key, patch: Mapping[str, Any]) -> T: ...

    async def delete(
        self, resource: Resource[T], key: Key, *, uid: str | None = None, resource_version: str | None = None
    ) -> None: ...
