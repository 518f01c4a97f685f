"""Storages over HTTP."""

from __future__ import annotations

from gpu_runtime.http.headers import if_match
from gpu_runtime.http.parameters import InNamespace, ListOf, Named
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.rest.requests import CreateGPUStorage, UpdateGPUStorage
from gpu_runtime.rest.views import StorageView

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
    return Reply(view, 201 if new else 200, headers=_etag(view))


async def list_all(call: Call[Nothing, ListOf, Nothing]) -> Reply:
    found = call.services.storages.list(call.query.namespace, call.query.filter)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, InNamespace, Named]) -> Reply:
    view = await call.services.storages.get(call.query.namespace, call.path.name)
    return Reply(view, headers=_etag(view))


async def update(call: Call[UpdateGPUStorage, InNamespace, Named]) -> Reply:
    storages, name = call.services.storages, call.path.name
    view = await storages.update(call.query.namespace, name, call.body, if_match(call.request))
    return Reply(view, headers=_etag(view))


async def recover(call: Call[Nothing, InNamespace, Named]) -> Reply:
    view = await call.services.storages.recover(call.query.namespace, call.path.name)
    return Reply(view, headers=_etag(view))


async def delete(call: Call[Nothing, InNamespace, Named]) -> Reply:
    await call.services.storages.delete(call.query.namespace, call.path.name, if_match(call.request))
    return Reply(status=204)


def _etag(view: StorageView) -> dict[str, str]:
    return {"ETag": f'"{view.resourceVersion}"'} if view.resourceVersion else {}


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
        summary="List storages",
        tag=TAG,
        handler=list_all,
        query=ListOf,
        answers=(Answer(200, "The storages.", list[StorageView], paged=True),),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}",
        summary="Get a storage",
        tag=TAG,
        handler=get,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(200, "The storage.", StorageView),),
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
