"""Kubernetes Events, as `kubectl describe` shows them. Repeats are counted, floods are combined, callers never wait."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
import structlog

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import AlreadyExists, KubeError, NotFound
from gpu_runtime.kube.resource import Resource

SIMILAR_LIMIT = 10
WINDOW_SECONDS = 600.0
BACKLOG = 1000
REMEMBERED = 4096
MESSAGE_BYTES = 1024


class ObjectReference(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    apiVersion: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class EventSource(msgspec.Struct, frozen=True):
    component: str


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    involvedObject: ObjectReference
    reason: str
    message: str
    type: str
    source: EventSource
    count: int
    firstTimestamp: datetime | None = None
    lastTimestamp: datetime | None = None
    reportingComponent: str = ""
    reportingInstance: str = ""


EVENTS = Resource("", "v1", "Event", "events", Event)


@dataclass
class _Series:
    """One Event object that is counted up."""

    name: str
    first: datetime
    count: int = 0
    written: bool = False


@dataclass
class _Group:
    """Events about one object with one reason, whatever they say."""

    began: float
    messages: set[str]


class Recorder:
    """Takes events without waiting and writes them one by one; a server that is away costs events, no reconcile."""

    def __init__(self, client: Client, component: str, instance: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._queue: asyncio.Queue[tuple[ObjectReference, str, str, str]] = asyncio.Queue(BACKLOG)
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._groups: OrderedDict[tuple[str, ...], _Group] = OrderedDict()
        self._unsent: tuple[Event, _Series] | None = None
        self._log = structlog.get_logger("events")

    def event(
        self,
        resource: Resource[Any],
        obj: Object,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002  the field's own name
    ) -> None:
        """Records an event about `obj`. Call it when something changes, not in each reconcile."""
        meta = obj.metadata
        reference = ObjectReference(
            apiVersion=resource.api_version,
            kind=resource.kind,
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
        )
        try:
            self._queue.put_nowait((reference, type, reason, message[:MESSAGE_BYTES]))
        except asyncio.QueueFull:
            self._log.warning("event dropped: too many are waiting", reason=reason, object=str(meta.key))

    async def run(self) -> None:
        """Writes events until cancelled. `flush` writes the event that was interrupted."""
        while True:
            self._take(*await self._queue.get())
            await self._send()

    async def flush(self) -> None:
        """Writes what is still waiting."""
        await self._send()
        while not self._queue.empty():
            self._take(*self._queue.get_nowait())
            await self._send()

    def _take(self, about: ObjectReference, kind: str, reason: str, message: str) -> None:
        if self._floods(about, kind, reason, message):
            series = self._series_of(about, kind, reason, "")
            message = f"(combined from similar events): {message}"
        else:
            series = self._series_of(about, kind, reason, message)
        series.count += 1
        self._unsent = self._event(about, kind, reason, message, series), series

    async def _send(self) -> None:
        """Writes the current event. If this call is cancelled, the next call writes the event again."""
        if self._unsent is None:
            return
        try:
            await self._write(*self._unsent)
        except KubeError as error:
            self._log.warning("event not written", problem=str(error))
        self._unsent = None

    async def _write(self, event: Event, series: _Series) -> None:
        if series.written:
            try:
                patch = {"count": event.count, "lastTimestamp": event.lastTimestamp, "message": event.message}
                await self._client.patch(EVENTS, event.metadata.key, patch)
                return
            except NotFound:  # events expire after an hour; this one begins again
                pass
        with suppress(AlreadyExists):  # only this event has this name: an interrupted call has written it
            await self._client.create(EVENTS, event)
        series.written = True

    def _floods(self, about: ObjectReference, kind: str, reason: str, message: str) -> bool:
        """Whether one reason of the object has too many different messages: then they share one Event."""
        key = (about.uid, kind, reason)
        now = self._clock.monotonic()
        group = self._groups.get(key)
        if group is None or now - group.began > WINDOW_SECONDS:
            group = self._groups[key] = _Group(now, set())
            _bound(self._groups)
        if message not in group.messages:
            if len(group.messages) >= SIMILAR_LIMIT:
                return True
            group.messages.add(message)
        return False

    def _series_of(self, about: ObjectReference, kind: str, reason: str, message: str) -> _Series:
        key = (about.uid, kind, reason, message)
        series = self._series.get(key)
        if series is None:
            # Derived from the message and its first time: after a restart, the name differs from earlier ones.
            first = self._clock.now()
            digest = hashlib.sha256("\0".join((*key, self._instance, first.isoformat())).encode()).hexdigest()[:16]
            series = self._series[key] = _Series(f"{about.name}.{digest}", first)
            _bound(self._series)
        self._series.move_to_end(key)
        return series

    def _event(self, about: ObjectReference, kind: str, reason: str, message: str, series: _Series) -> Event:
        key = Key(about.namespace or "default", series.name)
        return Event(
            metadata=ObjectMeta(name=key.name, namespace=key.namespace),
            involvedObject=about,
            reason=reason,
            message=message,
            type=kind,
            source=EventSource(self._component),
            firstTimestamp=series.first.replace(microsecond=0),
            lastTimestamp=self._clock.now().replace(microsecond=0),
            count=series.count,
            reportingComponent=self._component,
            reportingInstance=self._instance,
        )


def _bound(remembered: OrderedDict[tuple[str, ...], Any]) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
