"""Storages over HTTP."""

from __future__ import annotations

from aiohttp import web

from gpu_runtime.http.headers import etag, if_match
from gpu_runtime.http.parameters import GetOrWatch, InNamespace, ListOrWatch, Named
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.http.streams import CHANGES, watch
from gpu_runtime.rest.requests import CreateGPUStorage, UpdateGPUStorage
from gpu_runtime.rest.views import StorageView
from gpu_runtime.service.feed import Wanted

PATH = "/gpu-storages"
TAG = "storages"
EXAMPLE = {
    "name": "model-cache",
    "namespace": "runtime-instance",
    "size": "20Gi",
    "storageClassName": "rook-ceph-block",
}
UPDATE_EXAMPLE = {"size": "40Gi"}


async def create(call: Call[CreateGPUStorage, Nothing, Nothing]) -> Reply:
    view, new = await call.services.storages.create(call.body, call.sent, call.owner)
    return Reply(view, 201 if new else 200, headers=etag(view.resourceVersion))


async def list_all(call: Call[Nothing, ListOrWatch, Nothing]) -> Reply | web.StreamResponse:
    asked, storages = call.query, call.services.storages
    if asked.watch:
        wanted = asked.wanted(storages.namespace(asked.namespace))
        return await watch(call.request, call.services.watching_storages, wanted, asked)
    found = storages.list(asked.namespace, asked.filter)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, GetOrWatch, Named]) -> Reply | web.StreamResponse:
    asked = call.query
    view = await call.services.storages.get(asked.namespace, call.path.name)
    if asked.watch:
        return await watch(call.request, call.services.watching_storages, Wanted(view.namespace, view.name), asked)
    return Reply(view, headers=etag(view.resourceVersion))


async def update(call: Call[UpdateGPUStorage, InNamespace, Named]) -> Reply:
    storages, name = call.services.storages, call.path.name
    view = await storages.update(call.query.namespace, name, call.body, if_match(call.request))
    return Reply(view, headers=etag(view.resourceVersion))


async def recover(call: Call[Nothing, InNamespace, Named]) -> Reply:
    view = await call.services.storages.recover(call.query.namespace, call.path.name)
    return Reply(view, headers=etag(view.resourceVersion))


async def delete(call: Call[Nothing, InNamespace, Named]) -> Reply:
    await call.services.storages.delete(call.query.namespace, call.path.name, if_match(call.request))
    return Reply(status=204)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Create a storage",
        tag=TAG,
        handler=create,
        body=CreateGPUStorage,
        example=EXAMPLE,
        answers=(
            Answer(201, "The storage. A unit that mounts it can start when it is mountable.", StorageView),
            Answer(200, "The same request was made before: this is its storage as it is now.", StorageView),
        ),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=PATH,
        summary="List storages, or watch them",
        tag=TAG,
        handler=list_all,
        query=ListOrWatch,
        answers=(Answer(200, "The storages.", list[StorageView], paged=True), CHANGES),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}",
        summary="Get a storage, or watch it",
        tag=TAG,
        handler=get,
        query=GetOrWatch,
        parameters=Named,
        answers=(Answer(200, "The storage.", StorageView), CHANGES),
        errors=(404,),
    ),
    Route(
        method="PUT",
        path=f"{PATH}/{{name}}",
        summary="Grow a storage, or turn its accessor on or off",
        tag=TAG,
        handler=update,
        body=UpdateGPUStorage,
        example=UPDATE_EXAMPLE,
        query=InNamespace,
        parameters=Named,
        partial=True,
        answers=(Answer(200, "The storage as it is now. Its capacity follows the size.", StorageView),),
        errors=(404, 409),
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/{{name}}",
        summary="Delete a storage and its data",
        tag=TAG,
        handler=delete,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(204, "The deletion has begun."),),
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{PATH}/{{name}}/recover",
        summary="Fill a storage again after its prepare failed",
        tag=TAG,
        handler=recover,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(200, "The storage. Its volume is emptied, and the prepare runs again.", StorageView),),
        errors=(404, 409),
    ),
)
