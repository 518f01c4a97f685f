"""Jobs over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gpu_runtime.api.v1alpha1.operation import OperationID
from gpu_runtime.http.parameters import Paged
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.rest.views import Job, JobType

PATH = "/operator/jobs"
TAG = "jobs"


class OfOperation(msgspec.Struct, frozen=True):
    operationID: Annotated[OperationID, Meta(description="The id that the client chose.")]


class OfType(msgspec.Struct, frozen=True):
    type: Annotated[JobType | None, Meta(description="Each type has its own ids. Default: the newest job.")] = None


async def list_all(call: Call[Nothing, Paged, Nothing]) -> Reply:
    found = await call.services.jobs.list(limit=call.query.limit, token=call.query.token)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, OfType, OfOperation]) -> Reply:
    return Reply(await call.services.jobs.get(call.path.operationID, call.query.type))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path=PATH,
        summary="List jobs",
        tag=TAG,
        handler=list_all,
        query=Paged,
        answers=(Answer(200, "The jobs.", list[Job], paged=True),),
        errors=(409,),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{operationID}}",
        summary="Get a job",
        tag=TAG,
        handler=get,
        query=OfType,
        parameters=OfOperation,
        answers=(Answer(200, "The job.", Job),),
        errors=(404,),
    ),
)
