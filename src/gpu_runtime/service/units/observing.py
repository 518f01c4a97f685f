"""Watches, logs and events of units."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from random import Random

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.decoding import Listing
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store, version_number
from gpu_runtime.rest.errors import Missing, Unavailable
from gpu_runtime.rest.views import EventView, UnitView
from gpu_runtime.service.cluster import GPU_UNITS
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.units.feed import Change, Expired, Feed, Wanted
from gpu_runtime.service.units.units import Units
from gpu_runtime.service.views import unit_view

MOST_EVENTS = 500
# Random delay before a watch lists again: many watches may expire at the same moment.
RELIST_SECONDS = (1.0, 5.0)


class Pod(Struct, frozen=True):
    """The fields of a pod that are needed to find its log."""

    metadata: ObjectMeta


class Involved(Struct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class Source(Struct, frozen=True, kw_only=True):
    component: str = ""


class Event(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    involvedObject: Involved = Involved()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int | None = None
    firstTimestamp: datetime | None = None
    lastTimestamp: datetime | None = None
    eventTime: datetime | None = None
    source: Source | None = None
    reportingComponent: str = ""


PODS = Resource("", "v1", "Pod", "pods", Pod)
EVENTS = Resource("", "v1", "Event", "events", Event)


class Observing:
    """Logs and events are read from the cluster; changes come from the cache of units."""

    def __init__(
        self, client: Client, units: Units, platform: Platform, cache: Store[GPUUnit], rng: Random | None = None
    ) -> None:
        self._client = client
        self._units = units
        self._platform = platform
        self._rng = rng or Random()  # noqa: S311  spreads load; not for security
        self._feed = Feed(cache, self._view, without=platform.stock_namespace)

    async def changes(
        self, wanted: Wanted, *, selector: str = "", since: str = "", seconds: float, pause: float
    ) -> AsyncGenerator[list[Change], None]:
        """All units that match, then each change; with `since` only the changes after that version.

        The list is read live, so it is never older than what the client knows. Changes come from the cache: with one
        watch per client, each change would be decoded once per client. A bookmark is sent after each `pause` seconds
        without a change.
        """
        if not self._feed.version:
            raise Unavailable("units are not known yet: the cluster has not answered since this process started")
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        query = self._query(wanted, selector)
        version = int(since) if since and await self._known(query, int(since)) else 0
        has_units = bool(since)  # the client knows units already: a reset must precede a new list
        if version:
            yield [Change("bookmark", since)]  # the client sees at once that it is connected
        while True:
            if not version:
                if has_units:
                    yield [Change("reset")]
                version, units = self._all(wanted, await self._client.list(query))
                has_units = True
                yield units
                del units  # a watch lasts for hours: do not keep the first list in memory
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

    async def _known(self, query: Query[GPUUnit], version: int) -> bool:
        """Whether a watch can resume after this version.

        After a restore from backup, the client's version may be newer than the server's.
        """
        if version <= self._feed.version:
            return self._feed.keeps(version)
        page = await self._client.page(query, limit=1)
        return version <= version_number(page.resource_version)

    def _query(self, wanted: Wanted, selector: str) -> Query[GPUUnit]:
        fields = f"metadata.name={wanted.name}" if wanted.name else ""
        return Query(GPU_UNITS, wanted.namespace, labels=selector, fields=fields)

    def _all(self, wanted: Wanted, listing: Listing[GPUUnit]) -> tuple[int, list[Change]]:
        """The version of the list, and the list as changes for the watcher."""
        views = ((unit, self._view(unit)) for unit in listing.items)
        units = [Change("added", "", view) for unit, view in views if wanted.matches(unit, view)]
        units.append(Change("bookmark", listing.resource_version))  # a watch can resume only after the whole list
        return version_number(listing.resource_version), units

    async def logs(
        self, namespace: str | None, name: str, *, follow: bool, tail: int | None, previous: bool
    ) -> AsyncGenerator[bytes, None]:
        """The log of the unit's newest pod, in chunks."""
        key = self._units.key(namespace, name)
        pod = await self._newest_pod(await self._units.find(key))
        if pod is None:
            await self._units.find_live(key)  # the unit may be gone too, and the cache out of date
            raise Missing("log", f"unit {name} has no pod yet: see its Ready condition")
        parameters = {"follow": "true"} if follow else {}
        if tail is not None:
            parameters["tailLines"] = str(tail)
        if previous:
            parameters["previous"] = "true"
        path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
        pieces = self._client.stream(path, parameters=parameters)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except (kube.BadRequest, kube.NotFound) as error:
            raise Missing("log", f"the log does not exist: {error.message}") from error

    async def events(self, namespace: str | None, name: str) -> list[EventView]:
        """Events of the unit, its workload and its pods, oldest first."""
        unit = await self._units.find(self._units.key(namespace, name))
        where = unit.metadata.namespace
        names = [name, *(pod.metadata.name for pod in await self._pods(unit))]
        found: list[Event] = []
        for each in names:
            page = await self._client.page(
                Query(EVENTS, where, fields=f"involvedObject.name={each}"), limit=MOST_EVENTS
            )
            found += page.items
        return [_event_view(event) for event in sorted(found, key=_time)]

    def _view(self, unit: GPUUnit) -> UnitView:
        return unit_view(unit, self._platform.stock_namespace)

    async def _pods(self, unit: GPUUnit) -> list[Pod]:
        selector = f"{labels.UNIT}={unit.metadata.name}"
        page = await self._client.page(Query(PODS, unit.metadata.namespace, labels=selector))
        return page.items

    async def _newest_pod(self, unit: GPUUnit) -> Pod | None:
        pods = await self._pods(unit)
        return max(pods, key=lambda pod: (str(pod.metadata.creationTimestamp), pod.metadata.name), default=None)


def _time(event: Event) -> str:
    return str(event.lastTimestamp or event.eventTime or event.metadata.creationTimestamp)


def _event_view(event: Event) -> EventView:
    return EventView(
        object=f"{event.involvedObject.kind}/{event.involvedObject.name}",
        type=event.type,
        reason=event.reason,
        message=event.message,
        count=event.count or 1,
        source=(event.source.component if event.source else "") or event.reportingComponent,
        firstAt=event.firstTimestamp or event.eventTime,
        lastAt=event.lastTimestamp or event.eventTime,
    )
