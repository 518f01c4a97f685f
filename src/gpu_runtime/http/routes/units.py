"""Users' units over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from gpu_runtime.http.headers import etag, if_match
from gpu_runtime.http.parameters import GetOrWatch, InNamespace, InstanceNamespace, ListOrWatch, Named
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.http.streams import CHANGES, send_text, watch
from gpu_runtime.rest.requests import CreateGPUUnit, UpdateGPUUnit
from gpu_runtime.rest.views import EventView, UnitView
from gpu_runtime.service.feed import Wanted

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


class ReadLog(msgspec.Struct, frozen=True):
    namespace: InstanceNamespace = None
    follow: Annotated[bool, Meta(description="Continue with new lines as they are written.")] = False
    tail: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None, Meta(description="Only the last lines, at most this number.")
    ] = None
    previous: Annotated[bool, Meta(description="The log of the container before its last restart.")] = False


async def create(call: Call[CreateGPUUnit, Nothing, Nothing]) -> Reply:
    view, new = await call.services.units.create(call.body, call.sent, call.owner)
    return Reply(view, 201 if new else 200, headers=etag(view.resourceVersion))


async def list_all(call: Call[Nothing, ListOrWatch, Nothing]) -> Reply | web.StreamResponse:
    asked, units = call.query, call.services.units
    if asked.watch:
        return await watch(
            call.request, call.services.watching_units, asked.wanted(units.namespace(asked.namespace)), asked
        )
    found = units.list(asked.namespace, asked.filter)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, GetOrWatch, Named]) -> Reply | web.StreamResponse:
    asked = call.query
    view = await call.services.units.get(asked.namespace, call.path.name)
    if asked.watch:
        return await watch(call.request, call.services.watching_units, Wanted(view.namespace, view.name), asked)
    return Reply(view, headers=etag(view.resourceVersion))


async def update(call: Call[UpdateGPUUnit, InNamespace, Named]) -> Reply:
    view = await call.services.units.update(call.query.namespace, call.path.name, call.body, if_match(call.request))
    return Reply(view, headers=etag(view.resourceVersion))


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
        query=ListOrWatch,
        answers=(Answer(200, "The units.", list[UnitView], paged=True), CHANGES),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}",
        summary="Get a unit, or watch it",
        tag=TAG,
        handler=get,
        query=GetOrWatch,
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
