"""Logs and events of units."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest.errors import Missing
from gpu_runtime.rest.views import EventView
from gpu_runtime.service.units.units import Units

MOST_EVENTS = 500


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
    """Logs and events, read from the cluster."""

    def __init__(self, client: Client, units: Units) -> None:
        self._client = client
        self._units = units

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
