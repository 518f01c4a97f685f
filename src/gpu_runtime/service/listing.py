"""Pages of a cached list, sorted by name: a page token is the last name of the page before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Generic, TypeVar

from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.rest.selector import EVERYTHING, Selector
from gpu_runtime.service.views import reported_status

T = TypeVar("T", GPUUnit, StockPool, GPUStorage, GPUFunction)
V = TypeVar("V")
PAGE_SIZE = 100


@dataclass(frozen=True)
class Filter:
    """Selects objects, and one page of them."""

    labels: Selector = EVERYTHING
    phase: str = ""
    limit: int = PAGE_SIZE
    token: str = ""


@dataclass(frozen=True)
class ListPage(Generic[V]):
    """One page. `token` asks for the next page; it is empty on the last one."""

    items: list[V]
    token: str = ""


def list_page(objects: Iterable[T], wanted: Filter, view: Callable[[T], V], *, namespace: str) -> ListPage[V]:
    """One page. An object that exists during the whole listing is never missed; others may be."""
    matching = (
        obj
        for obj in objects
        if obj.metadata.namespace == namespace
        and obj.metadata.name > wanted.token
        and wanted.labels.matches(obj.metadata.labels)
        and (not wanted.phase or reported_status(obj).phase == wanted.phase)
    )
    found = nsmallest(wanted.limit + 1, matching, key=lambda obj: obj.metadata.name)
    page = found[: wanted.limit]
    token = page[-1].metadata.name if len(found) > wanted.limit else ""
    return ListPage([view(obj) for obj in page], token)
