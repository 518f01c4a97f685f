"""Pages of a cached list: in the order of names, so that a page token is just the last name that was shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Generic, TypeVar

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.rest.selector import EVERYTHING, Selector
from gpu_runtime.service.views import shown

T = TypeVar("T", GPUUnit, StockPool)
V = TypeVar("V")
PAGE_SIZE = 100


@dataclass(frozen=True)
class Filter:
    """Which objects, and which page of them."""

    labels: Selector = EVERYTHING
    phase: str = ""
    limit: int = PAGE_SIZE
    token: str = ""


@dataclass(frozen=True)
class Listed(Generic[V]):
    """One page; `token` asks for the next, and is empty on the last."""

    items: list[V]
    token: str = ""


def listed(objects: Iterable[T], wanted: Filter, view: Callable[[T], V], *, namespace: str) -> Listed[V]:
    """The page that was asked for. What comes or goes between two pages shows or not; nothing else is missed."""
    matching = (
        obj
        for obj in objects
        if obj.metadata.namespace == namespace
        and obj.metadata.name > wanted.token
        and wanted.labels.matches(obj.metadata.labels)
        and (not wanted.phase or shown(obj).phase == wanted.phase)
    )
    found = nsmallest(wanted.limit + 1, matching, key=lambda obj: obj.metadata.name)
    page = found[: wanted.limit]
    token = page[-1].metadata.name if len(found) > wanted.limit else ""
    return Listed([view(obj) for obj in page], token)
