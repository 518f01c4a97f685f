"""Reads a whole list from the server, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from gpu_runtime.api.meta.object import Object
from gpu_runtime.kube.client import Query
from gpu_runtime.service.cluster import Cluster

T = TypeVar("T", bound=Object)


async def list_all(cluster: Cluster, query: Query[T]) -> AsyncIterator[T]:
    """All objects of the query. Stops reading pages when the caller stops."""
    token: str | None = None
    while True:
        page = await cluster.page(query, token=token)
        for obj in page.items:
            yield obj
        token = page.token
        if not token:
            return
