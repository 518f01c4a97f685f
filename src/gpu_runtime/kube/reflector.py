"""Keeps a store equal to the server: lists once, then watches, and lists again when the watch cannot resume."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import Generic, TypeVar

import structlog

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.backoff import JitteredBackoff
from gpu_runtime.kube.client import PAGE_SIZE, Client, Query
from gpu_runtime.kube.decoding import Skipped, WatchEvent
from gpu_runtime.kube.errors import ApiError, Gone, KubeError, NotFound
from gpu_runtime.kube.store import Store

T = TypeVar("T", bound=Object)
WATCH_SECONDS = 300.0
SILENCE_MARGIN_SECONDS = 15.0
MINIMUM_WATCH_SECONDS = 1.0


class Reflector(Generic[T]):
    """Fills `store` until cancelled. `synced` is set after the first complete list; `problem` is the current error."""

    def __init__(
        self,
        client: Client,
        query: Query[T],
        store: Store[T],
        *,
        backoff: JitteredBackoff | None = None,
        watch_seconds: float = WATCH_SECONDS,
        silence_margin: float = SILENCE_MARGIN_SECONDS,
        page_size: int = PAGE_SIZE,
        rng: random.Random | None = None,
    ) -> None:
        self.query = query
        self.store = store
        self.synced = asyncio.Event()
        self.problem: str | None = "not listed yet"
        self.skipped: dict[Key, Skipped] = {}
        self._client = client
        self._backoff = backoff or JitteredBackoff()
        self._watch_seconds = watch_seconds
        self._silence_margin = silence_margin
        self._page_size = page_size
        self._rng = rng or random.Random()  # noqa: S311  spreads load, guards nothing
        self._log = structlog.get_logger("reflector").bind(kind=query.resource.qualified_name)

    async def run(self) -> None:
        """Runs until cancelled; errors are reported and retried."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._watch(version)
            except Gone:
                # The server no longer keeps the changes since our version; only a list tells what we missed.
                version = ""
                await self._pause(None)
            except KubeError as error:
                self._report(error)
                version = "" if _version_unknown(error) else self._resume_from()
                await self._pause(error.retry_after if isinstance(error, ApiError) else None)

    async def _list(self) -> str:
        try:
            listing = await self._client.list(self.query, limit=self._page_size)
        except Gone:
            # The continue token expired: list without pages, which cannot expire.
            listing = await self._client.list(self.query, limit=0)
        known, self.skipped = self.skipped, {}
        for skipped in listing.skipped:
            self._skip(skipped, known=known.get(skipped.key))
        self.store.replace(listing.items, listing.resource_version)
        self.problem = None
        self.synced.set()
        return listing.resource_version

    async def _watch(self, version: str) -> str:
        # Jitter keeps the watches of many processes from ending together.
        seconds = self._watch_seconds * self._rng.uniform(1.0, 1.5)
        loop = asyncio.get_running_loop()
        received, began = False, loop.time()
        events = self._client.watch(
            self.query,
            resource_version=version,
            timeout=seconds,
            silence=seconds + self._silence_margin,
            opened=self._followed,
        )
        async with aclosing(events):
            async for event in events:
                received = True
                self._take(event)
                version = event.resource_version
                self._followed()
                self._backoff.reset()
        if not received and loop.time() - began < MINIMUM_WATCH_SECONDS:
            await self._pause(None)  # a server that ends watches at once must not be asked in a tight loop
        return version

    def _followed(self) -> None:
        # Cleared when the watch opens: a kind without changes sends no event.
        self.problem = None

    def _resume_from(self) -> str:
        return str(self.store.version) if self.synced.is_set() and self.store.version else ""

    def _take(self, event: WatchEvent[T]) -> None:
        if event.type == "DELETED":
            self.skipped.pop(event.key, None)
            self.store.remove(event.key)
        elif event.skipped is not None:
            # The cached copy is an older version: controllers must not act on it.
            self.store.remove(event.key)
            self._skip(event.skipped)
        elif event.object is not None:
            self.skipped.pop(event.key, None)
            self.store.upsert(event.object)
        self.store.saw(event.resource_version)

    def _skip(self, skipped: Skipped, known: Skipped | None = None) -> None:
        self.skipped[skipped.key] = skipped
        if skipped != known:
            self._log.warning("unreadable object skipped", problem=skipped.problem)

    def _report(self, error: KubeError) -> None:
        problem = str(error)
        if isinstance(error, NotFound):
            problem = (
                f"{self.query.resource.kind} ({self.query.resource.api_version}) is not served by "
                f"{self._client.config.server}: install its CustomResourceDefinition"
            )
        if problem != self.problem:
            self._log.warning("cannot follow the server; retrying", problem=problem)
        self.problem = problem

    async def _pause(self, retry_after: float | None) -> None:
        await asyncio.sleep(max(self._backoff.next(), retry_after or 0.0))


def _version_unknown(error: KubeError) -> bool:
    """Our version is newer than the server's: it was restored from a backup. Only a new list helps."""
    return isinstance(error, ApiError) and any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
