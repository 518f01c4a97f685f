"""Stock over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gpu_runtime.http.parameters import Continue, LabelSelector, Limit, Named
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.rest.selector import Selector
from gpu_runtime.rest.views import Job, UnitView
from gpu_runtime.service.listing import PAGE_SIZE, Filter

PATH = "/operator/stock-units"
TAG = "stock"
EXAMPLE = {"operationID": "stock-g1-demo-001", "specName": "g1.1", "memory": "16Gi", "gpu": 1, "replicas": 2}


class ListStock(msgspec.Struct, frozen=True):
    labelSelector: LabelSelector = ""
    phase: Annotated[str, Meta(max_length=64, description="Only stock of this phase, such as Ready.")] = ""
    limit: Limit = PAGE_SIZE
    token: Continue = msgspec.field(default="", name="continue")


async def seed(call: Call[CreateStockUnits, Nothing, Nothing]) -> Reply:
    job, new = await call.services.stock.seed(call.body, call.sent, call.owner)
    return Reply(job, 202 if new or job.status in ("pending", "running") else 200)


async def list_all(call: Call[Nothing, ListStock, Nothing]) -> Reply:
    asked = call.query
    wanted = Filter(Selector.parse(asked.labelSelector), asked.phase, asked.limit, asked.token)
    found = call.services.stock.list(wanted)
    return Reply(found.items, token=found.token)


async def delete(call: Call[Nothing, Nothing, Named]) -> Reply:
    await call.services.stock.delete(call.path.name)
    return Reply(status=204)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Seed stock units",
        tag=TAG,
        handler=seed,
        body=CreateStockUnits,
        example=EXAMPLE,
        answers=(
            Answer(202, "Accepted, or still running: the job shows what is persisted.", Job),
            Answer(200, "The same request was made before: this is its job.", Job),
        ),
        errors=(409,),
    ),
    Route(
        method="GET",
        path=PATH,
        summary="List stock units",
        tag=TAG,
        handler=list_all,
        query=ListStock,
        answers=(Answer(200, "The stock.", list[UnitView], paged=True),),
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/{{name}}",
        summary="Delete a stock unit",
        tag=TAG,
        handler=delete,
        parameters=Named,
        answers=(Answer(204, "The deletion has begun."),),
        errors=(404, 409),
    ),
)
