"""Stock pools over HTTP."""

from __future__ import annotations

from gpu_runtime.http.parameters import InNamespace, ListOf, Named
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.rest.requests import CreateStockPool
from gpu_runtime.rest.views import Job, StockPoolView

PATH = "/operator/stockpools"
TAG = "stock pools"
EXAMPLE = {
    "operationID": "stock-g1-demo-001",
    "name": "pool-g1-demo",
    "namespace": "default",
    "specName": "g1.1",
    "image": "python:3.12-slim",
    "memory": "16Gi",
    "gpu": 1,
    "replicas": 1,
    "template": {
        "command": ["python"],
        "args": ["-m", "http.server", "8080"],
        "envs": [{"name": "MODEL_ID", "value": "demo-model"}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    },
}


async def create(call: Call[CreateStockPool, Nothing, Nothing]) -> Reply:
    job, new = await call.services.pools.create(call.body, call.sent, call.owner)
    return Reply(job, 202 if new or job.status in ("pending", "running") else 200)


async def list_all(call: Call[Nothing, ListOf, Nothing]) -> Reply:
    found = call.services.pools.list(call.query.namespace, call.query.filter)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, InNamespace, Named]) -> Reply:
    view = await call.services.pools.get(call.query.namespace, call.path.name)
    return Reply(view, headers={"ETag": f'"{view.resourceVersion}"'})


async def delete(call: Call[Nothing, InNamespace, Named]) -> Reply:
    await call.services.pools.delete(call.query.namespace, call.path.name)
    return Reply(status=204)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Create a stock pool",
        tag=TAG,
        handler=create,
        body=CreateStockPool,
        example=EXAMPLE,
        answers=(
            Answer(202, "Accepted: the job shows what is persisted.", Job),
            Answer(200, "The same request was made before: this is its job.", Job),
        ),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=PATH,
        summary="List stock pools",
        tag=TAG,
        handler=list_all,
        query=ListOf,
        answers=(Answer(200, "The pools.", list[StockPoolView], paged=True),),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{name}}",
        summary="Get a stock pool",
        tag=TAG,
        handler=get,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(200, "The pool.", StockPoolView),),
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/{{name}}",
        summary="Delete a stock pool",
        tag=TAG,
        handler=delete,
        query=InNamespace,
        parameters=Named,
        answers=(Answer(204, "The deletion has begun."),),
        errors=(404,),
    ),
)
