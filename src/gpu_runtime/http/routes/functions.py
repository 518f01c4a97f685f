"""Serverless functions over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from gpu_runtime.http.headers import etag, if_match
from gpu_runtime.http.parameters import GetOrWatch, InNamespace, InstanceNamespace, ListOrWatch, Named
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.http.streams import CHANGES, watch
from gpu_runtime.rest.function_requests import CreateGPUFunction, UpdateGPUFunction
from gpu_runtime.rest.function_views import FunctionView
from gpu_runtime.service.feed import Wanted
from gpu_runtime.service.functions.functions import Pending

PATH = "/serverless/functions"
TAG = "functions"
EXAMPLE = {
    "operationID": "fn-echo-001",
    "name": "echo",
    "namespace": "runtime-instance",
    "unit": {"specName": "cpu.small", "memory": "256Mi", "gpu": 0},
    "handler": {"source": 'def main(payload):\n    return {"got": payload}\n', "entry": "main"},
    "concurrency": 4,
    "minWorkers": 0,
    "maxWorkers": 3,
    "idleTimeoutSeconds": 30,
    "invocationTimeoutSeconds": 60,
    "retry": {"maxAttempts": 3, "backoffSeconds": [1]},
}
UPDATE_EXAMPLE = {"maxWorkers": 5}


class DeleteFunction(msgspec.Struct, frozen=True):
    namespace: InstanceNamespace = None
    pending: Annotated[
        Pending | None,
        Meta(
            description="What happens to unfinished invocations: drain (the default) lets them end, cancel ends them."
        ),
    ] = None


async def create(call: Call[CreateGPUFunction, Nothing, Nothing]) -> Reply:
    view, new = await call.services.functions.create(call.body, call.sent, call.owner)
    return Reply(view, 201 if new else 200, headers=etag(view.resourceVersion))


async def list_all(call: Call[Nothing, ListOrWatch, Nothing]) -> Reply | web.StreamResponse:
    asked, functions = call.query, call.services.functions
    if asked.watch:
        wanted = asked.wanted(functions.namespace(asked.namespace))
        return await watch(call.request, call.services.watching_functions, wanted, asked)
    found = functions.list(asked.namespace, asked.filter)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, GetOrWatch, Named]) -> Reply | web.StreamResponse:
    asked = call.query
    view = await call.services.functions.get(asked.namespace, call.path.name)
    if asked.watch:
        return await watch(call.request, call.services.watching_functions, Wanted(view.namespace, view.name), asked)
    return Reply(view, headers=etag(view.resourceVersion))


async def update(call: Call[UpdateGPUFunction, InNamespace, Named]) -> Reply:
    functions, name = call.services.functions, call.path.name
    view = await functions.update(call.query.namespace, name, call.body, if_match(call.request))
    return Reply(view, headers=etag(view.resourceVersion))


async def delete(call: Call[Nothing, DeleteFunction, Named]) -> Reply:
    asked = call.query
    await call.services.functions.delete(asked.namespace, call.path.name, asked.pending, if_match(call.request))
    return Reply(status=204)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Create a serverless function",
        tag=TAG,
        handler=create,
        body=CreateGPUFunction,
        example=EXAMPLE,
        answers=(
            Answer(201, "The function. It takes invocations from now on; they wait for a worker.", FunctionView),
            Answer(200, "The same request was made before: this is its function as it is now.", FunctionView),
        ),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=PATH,
        summary="List serverless functions, or watch them",
        tag=TAG,
        handler=list_all,
        query=ListOrWatch,
        answers=(Answer(200, "The functions.", list[FunctionView], paged=True), CHANGES),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}",
        summary="Get a serverless function, or watch it",
        tag=TAG,
        handler=get,
        query=GetOrWatch,
        parameters=Named,
        answers=(Answer(200, "The function.", FunctionView), CHANGES),
        errors=(404,),
    ),
    Route(
        method="PUT",
        path=f"{PATH}/{{name}}",
        summary="Change a serverless function; its workers are replaced one by one",
        tag=TAG,
        handler=update,
        body=UpdateGPUFunction,
        example=UPDATE_EXAMPLE,
        query=InNamespace,
        parameters=Named,
        partial=True,
        answers=(Answer(200, "The function as it is now.", FunctionView),),
        errors=(404, 409),
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/{{name}}",
        summary="Delete a serverless function",
        tag=TAG,
        handler=delete,
        query=DeleteFunction,
        parameters=Named,
        answers=(Answer(204, "The deletion has begun. The function is gone when its invocations have ended."),),
        errors=(404, 409),
    ),
)
