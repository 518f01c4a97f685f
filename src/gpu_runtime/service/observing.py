"""Looking into units: their changes as they happen, their logs, their events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.resource import Resource
from gpu_runtime.service.cluster import GPU_UNITS
from gpu_runtime.service.errors import Missing
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.units import Units
from gpu_runtime.service.views import UnitView, unit_view

SILENCE_SECONDS = 15.0
MOST_EVENTS = 500


class Pod(Struct, frozen=True):
    """As much of a pod as finding its log needs."""

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


class EventView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that happened to a unit or to what it consists of."""

    object: Annotated[str, Meta(description="Kind and name, such as Pod/demo-5d9c.")]
    type: str
    reason: str
    message: str
    count: int = 1
    source: str = ""
    firstAt: datetime | None = None
    lastAt: datetime | None = None


@dataclass(frozen=True)
class Change:
    """One change of a unit. `version`, where there is one, resumes after it; a `reset` says that all is told anew."""

    kind: Literal["added", "modified", "deleted", "bookmark", "reset"]
    version: str
    unit: UnitView | None = None


class Observing:
    """Streams and reads that go to the cluster directly."""

    def __init__(self, client: Client, units: Units, platform: Platform) -> None:
        self._client = client
        self._units = units
        self._platform = platform

    async def changes(
        self, namespace: str, *, name: str = "", selector: str = "", since: str = "", seconds: float
    ) -> AsyncGenerator[Change, None]:
        """What is there, then every change; with `since` only the changes after that version."""
        fields = f"metadata.name={name}" if name else ""
        query = Query(GPU_UNITS, namespace, labels=selector, fields=fields)
        version = since
        if version:
            yield Change("bookmark", version)  # the client sees at once that it is connected
        else:
            async for change in self._all(query):
                version = change.version
                yield change  # the last one is the bookmark: only from there can the list be resumed
        try:
            async for change in self._watch(query, version, seconds):
                yield change
        except kube.Gone:
            # The server no longer keeps what happened since: only the whole picture is honest.
            yield Change("reset", "")
            async for change in self._all(query):
                yield change

    async def logs(
        self, namespace: str | None, name: str, *, follow: bool, tail: int | None, previous: bool
    ) -> AsyncGenerator[bytes, None]:
        """The log of the unit's newest pod, in the pieces that it arrives in."""
        key = self._units.key(namespace, name)
        pod = await self._newest_pod(await self._units.find(key))
        if pod is None:
            await self._units.find_live(key)  # without pods, the cached unit may be gone as well
            raise Missing("log", f"unit {name} has no pod yet: its Ready condition tells why")
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
            raise Missing("log", f"there is no such log: {error.message}") from error

    async def events(self, namespace: str | None, name: str) -> list[EventView]:
        """What happened to the unit, its workload and its pods, oldest first."""
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

    async def _all(self, query: Query[GPUUnit]) -> AsyncIterator[Change]:
        listing = await self._client.list(query)
        for unit in listing.items:
            yield Change("added", "", self._view(unit))
        yield Change("bookmark", listing.resource_version)

    async def _watch(self, query: Query[GPUUnit], version: str, seconds: float) -> AsyncIterator[Change]:
        events = self._client.watch(query, resource_version=version, timeout=seconds, silence=seconds + SILENCE_SECONDS)
        async with aclosing(events):
            async for event in events:
                if event.type == "BOOKMARK":
                    yield Change("bookmark", event.resource_version)
                elif event.object is not None:
                    kind: Literal["added", "modified", "deleted"] = (
                        "added" if event.type == "ADDED" else "modified" if event.type == "MODIFIED" else "deleted"
                    )
                    yield Change(kind, event.resource_version, self._view(event.object))

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
