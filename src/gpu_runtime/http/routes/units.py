"""Users' units over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from gpu_runtime.http.headers import if_match, last_event_id
from gpu_runtime.http.parameters import Continue, InNamespace, LabelSelector, Limit, Named, NamespaceName
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.http.streams import CHANGES, HEARTBEAT_SECONDS, send_changes, send_text
from gpu_runtime.rest.requests import CreateGPUUnit, UpdateGPUUnit
from gpu_runtime.rest.selector import Selector
from gpu_runtime.rest.views import EventView, UnitView
from gpu_runtime.service.listing import PAGE_SIZE, Filter
from gpu_runtime.service.units.feed import Wanted

PATH = "/gpu-units"
TAG = "units"
EXAMPLE = {
    "operationID": "unit-demo-001",
    "name": "demo-instance",
    "namespace": "runtime-instance",
    "specName": "g1.1",
    "image": "python:3.12",
    "access": {"primaryPort": "http", "scheme": "http"},
    "template": {
        "command": ["python"],
        "args": ["-m", "http.server", "8080"],
        "ports": [{"name": "http", "port": 8080}],
    },
}
UPDATE_EXAMPLE = {"image": "python:3.12-slim"}

Namespace = Annotated[NamespaceName | None, Meta(description="Namespace of the units. Default: runtime-instance.")]
Watch = Annotated[bool, Meta(description="Continue with a server-sent event for each change.")]
Since = Annotated[
    str,
    Meta(
        max_length=64,
        pattern="^[0-9]*$",
        description="With watch: only changes after this version. The header Last-Event-ID does the same.",
        extra={"hint": "the id of an earlier event"},
    ),
]
WatchSeconds = Annotated[int, Meta(ge=1, le=3600, description="With watch: seconds until the server ends the stream.")]


class ListUnits(msgspec.Struct, frozen=True):
    namespace: Namespace = None
    labelSelector: LabelSelector = ""
    phase: Annotated[
        str,
        Meta(
            max_length=64,
            description="Only units of this phase, such as Ready. With watch, one that leaves it is sent as `deleted`.",
        ),
    ] = ""
    limit: Limit = PAGE_SIZE
    token: Continue = msgspec.field(default="", name="continue")
    watch: Watch = False
    resourceVersion: Since = ""
    timeoutSeconds: WatchSeconds = 300


class GetUnit(msgspec.Struct, frozen=True):
    namespace: Namespace = None
    watch: Watch = False
    resourceVersion: Since = ""
    timeoutSeconds: WatchSeconds = 300


class ReadLog(msgspec.Struct, frozen=True):
    namespace: Namespace = None
    follow: Annotated[bool, Meta(description="Continue with new lines as they are written.")] = False
    tail: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None, Meta(description="Only the last lines, at most this number.")
    ] = None
    previous: Annotated[bool, Meta(description="The log of the container before its last restart.")] = False


async def create(call: Call[CreateGPUUnit, Nothing, Nothing]) -> Reply:
    view, new = await call.services.units.create(call.body, call.sent, call.owner)
    return Reply(view, 201 if new else 200, headers=_etag(view))


async def list_all(call: Call[Nothing, ListUnits, Nothing]) -> Reply | web.StreamResponse:
    asked, units = call.query, call.services.units
    if asked.watch:
        labels = Selector.parse(asked.labelSelector)
        wanted = Wanted(units.namespace(asked.namespace), labels=labels, phase=asked.phase)
        return await _watch(call, wanted, asked, asked.labelSelector)
    page = Filter(Selector.parse(asked.labelSelector), asked.phase, asked.limit, asked.token)
    found = units.list(asked.namespace, page)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, GetUnit, Named]) -> Reply | web.StreamResponse:
    asked, units = call.query, call.services.units
    view = await units.get(asked.namespace, call.path.name)
    if asked.watch:
        return await _watch(call, Wanted(view.namespace, view.name), asked)
    return Reply(view, headers=_etag(view))


async def _watch(
    call: Call[Any, Any, Any], wanted: Wanted, asked: ListUnits | GetUnit, selector: str = ""
) -> web.StreamResponse:
    changes = call.services.observing.changes(
        wanted,
        selector=selector,
        since=last_event_id(call.request, asked.resourceVersion),
        seconds=asked.timeoutSeconds,
        pause=HEARTBEAT_SECONDS,
    )
    return await send_changes(call.request, changes)


async def update(call: Call[UpdateGPUUnit, InNamespace, Named]) -> Reply:
    view = await call.services.units.update(call.query.namespace, call.path.name, call.body, if_match(call.request))
    return Reply(view, headers=_etag(view))


async def delete(call: Call[Nothing, InNamespace, Named]) -> Reply:
    await call.services.units.delete(call.query.namespace, call.path.name, if_match(call.request))
    return Reply(status=204)


async def logs(call: Call[Nothing, ReadLog, Named]) -> web.StreamResponse:
    asked = call.query
    pieces = call.services.observing.logs(
        asked.namespace, call.path.name, follow=asked.follow, tail=asked.tail, previous=asked.previous
    )
    return await send_text(call.request, pieces)


async def events(call: Call[Nothing, InNamespace, Named]) -> Reply:
    return Reply(await call.services.observing.events(call.query.namespace, call.path.name))


def _etag(view: UnitView) -> dict[str, str]:
    return {"ETag": f'"{view.resourceVersion}"'} if view.resourceVersion else {}


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Create a unit from warm stock",
        tag=TAG,
        handler=create,
        body=CreateGPUUnit,
        example=EXAMPLE,
        answers=(
            Answer(201, "The unit. It runs when its phase is Ready.", UnitView),
            Answer(200, "The same request was made before: this is its unit as it is now.", UnitView),
        ),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=PATH,
        summary="List units, or watch them",
        tag=TAG,
        handler=list_all,
        query=ListUnits,
        answers=(Answer(200, "The units.", list[UnitView], paged=True), CHANGES),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}",
        summary="Get a unit, or watch it",
        tag=TAG,
        handler=get,
        query=GetUnit,
        parameters=Named,
        answers=(Answer(200, "The unit.", UnitView), CHANGES),
        errors=(404,),
    ),
    Route(
        method="PUT",
        path=f"{PATH}/{{name}}",
        summary="Change image, template or access of a unit",
        tag=TAG,
        handler=update,
        body=UpdateGPUUnit,
        example=UPDATE_EXAMPLE,
        query=InNamespace,
        parameters=Named,
        partial=True,
        answers=(Answer(200, "The unit as it is now.", UnitView),),
        errors=(404, 409),
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/{{name}}",
        summary="Delete a unit",
        tag=TAG,
        handler=delete,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(204, "The deletion has begun."),),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}/logs",
        summary="Read the log of a unit",
        tag=TAG,
        handler=logs,
        query=ReadLog,
        parameters=Named,
        answers=(Answer(200, "The log, as text.", media="text/plain"),),
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}/events",
        summary="List the events of a unit",
        tag=TAG,
        handler=events,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(200, "The events, oldest first.", list[EventView]),),
        errors=(404,),
    ),
)
