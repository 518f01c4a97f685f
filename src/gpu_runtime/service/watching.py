"""Watches of one kind: first all objects that exist, then each change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import Random
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Object
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.decoding import Listing
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store, version_number
from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.service.feed import Change, Expired, Feed, View, Wanted

T = TypeVar("T", bound=Object)
# Random delay before a watch lists again: many watches may expire at the same moment.
RELIST_SECONDS = (1.0, 5.0)


class Watching(Generic[T]):
    """Serves watches from a cache. Objects in the namespace `without` are left out."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        cache: Store[T],
        view: Callable[[T], View],
        *,
        without: str = "",
        rng: Random | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._view = view
        self._rng = rng or Random()  # noqa: S311  spreads load; not for security
        self._feed = Feed(cache, view, without=without)

    async def changes(
        self, wanted: Wanted, *, selector: str = "", since: str = "", seconds: float, pause: float
    ) -> AsyncGenerator[list[Change], None]:
        """All objects that match, then each change; with `since` only the changes after that version.

        The list is read live, so it is never older than what the client knows. Changes come from the cache: with one
        watch per client, each change would be decoded once per client. A bookmark is sent after each `pause` seconds
        without a change.
        """
        if not self._feed.version:
            raise Unavailable(
                f"{self._resource.plural} are not known yet: the cluster has not answered since this process started"
            )
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        query = self._query(wanted, selector)
        version = int(since) if since and await self._can_resume(query, int(since)) else 0
        has_objects = bool(since)  # the client knows objects already: a reset must precede a new list
        if version:
            yield [Change("bookmark", since)]  # the client sees at once that it is connected
        while True:
            if not version:
                if has_objects:
                    yield [Change("reset")]
                version, objects = self._as_changes(wanted, await self._client.list(query))
                has_objects = True
                yield objects
                del objects  # a watch lasts for hours: do not keep the first list in memory
            try:
                async with aclosing(
                    self._feed.after(version, wanted, seconds=end - loop.time(), pause=pause)
                ) as batches:
                    async for batch in batches:
                        yield batch
                return
            except Expired:
                version = 0
                # The cache may need a moment to catch up with a server that was restored from backup.
                await asyncio.sleep(self._rng.uniform(*RELIST_SECONDS))

    async def _can_resume(self, query: Query[T], version: int) -> bool:
        """Whether a watch can resume after this version.

        The client's version may be newer than the cache. After a restore from backup it may be newer than the server,
        so the server is asked.
        """
        if version <= self._feed.version:
            return self._feed.keeps(version)
        page = await self._client.page(query, limit=1)
        return version <= version_number(page.resource_version)

    def _query(self, wanted: Wanted, selector: str) -> Query[T]:
        fields = f"metadata.name={wanted.name}" if wanted.name else ""
        return Query(self._resource, wanted.namespace, labels=selector, fields=fields)

    def _as_changes(self, wanted: Wanted, listing: Listing[T]) -> tuple[int, list[Change]]:
        """The version of the list, and the list as changes for the watcher."""
        views = ((obj, self._view(obj)) for obj in listing.items)
        objects = [Change("added", "", view) for obj, view in views if wanted.matches(obj, view)]
        objects.append(Change("bookmark", listing.resource_version))  # a watch can resume only after the whole list
        return version_number(listing.resource_version), objects
