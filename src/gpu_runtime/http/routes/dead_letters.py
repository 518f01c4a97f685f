"""Dead letters over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gpu_runtime.http.parameters import InstanceNamespace, Limit, PageToken
from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.rest.invocations import DeadLetterView, FunctionName, InvocationView, RedriveAll, RedriveView
from gpu_runtime.serverless.results.records import DeadLetter
from gpu_runtime.serverless.subjects import Function
from gpu_runtime.service.invocations.dead_letters import dead_letter_view
from gpu_runtime.service.invocations.serverless import Serverless
from gpu_runtime.service.listing import PAGE_SIZE

PATH = "/serverless/dead-letters"
TAG = "dead letters"
EXAMPLE = {"serverlessRequestID": "echo"}
REDRIVEN_AT_ONCE = 500


class ById(msgspec.Struct, frozen=True):
    deadLetterID: Annotated[
        str, Meta(min_length=1, max_length=300, pattern=r"^[A-Za-z0-9._:-]+$", description="The id of the dead letter.")
    ]


class ListDeadLetters(msgspec.Struct, frozen=True):
    namespace: InstanceNamespace = None
    function: Annotated[FunctionName | None, Meta(description="Only those of this function.")] = None
    redriven: Annotated[
        bool | None, Meta(description="Only those that were redriven, or only those that were not.")
    ] = None
    limit: Limit = PAGE_SIZE
    token: PageToken = msgspec.field(default="", name="continue")


class NextPage(msgspec.Struct, frozen=True):
    token: PageToken = msgspec.field(default="", name="continue")


async def list_all(call: Call[Nothing, ListDeadLetters, Nothing]) -> Reply:
    serverless, asked = call.services.serverless, call.query
    namespace = serverless.invocations.namespace(asked.namespace)
    found = await serverless.dead_letters.page(namespace, asked.function, asked.redriven, asked.limit, asked.token)
    return Reply(found.items, token=found.token)


async def get(call: Call[Nothing, Nothing, ById]) -> Reply:
    return Reply(dead_letter_view(await _allowed(call.services.serverless, call.path.deadLetterID)))


async def redrive(call: Call[Nothing, Nothing, ById]) -> Reply:
    serverless = call.services.serverless
    letter = await _allowed(serverless, call.path.deadLetterID)
    accepted = await serverless.dead_letters.redrive(letter)
    view = await serverless.invocations.view(accepted.found, duplicate=accepted.duplicate)
    return Reply(view, 200 if accepted.duplicate else 202)


async def redrive_all(call: Call[RedriveAll, NextPage, Nothing]) -> Reply:
    serverless, asked = call.services.serverless, call.body
    function = Function(serverless.invocations.namespace(asked.namespace), asked.serverlessRequestID)
    view, token = await serverless.dead_letters.redrive_all(function, REDRIVEN_AT_ONCE, call.query.token)
    return Reply(view, token=token)


async def _allowed(serverless: Serverless, letter_id: str) -> DeadLetter:
    """The dead letter, if its namespace is one that this installation serves."""
    letter = await serverless.dead_letters.require(letter_id)
    if letter.run is not None:
        serverless.invocations.platform.allow(letter.run.function.namespace)
    return letter


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path=PATH,
        summary="List what was given up, newest first",
        tag=TAG,
        handler=list_all,
        query=ListDeadLetters,
        answers=(Answer(200, "The dead letters.", list[DeadLetterView], paged=True),),
    ),
    Route(
        method="POST",
        path=f"{PATH}/redrive",
        summary="Run all dead letters of a function again",
        tag=TAG,
        handler=redrive_all,
        body=RedriveAll,
        query=NextPage,
        example=EXAMPLE,
        answers=(
            Answer(200, "What became of one page of them. `continue` asks for the next page.", RedriveView, paged=True),
        ),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{deadLetterID}}",
        summary="Get a dead letter",
        tag=TAG,
        handler=get,
        parameters=ById,
        answers=(Answer(200, "The dead letter.", DeadLetterView),),
        errors=(404,),
    ),
    Route(
        method="POST",
        path=f"{PATH}/{{deadLetterID}}/redrive",
        summary="Run a dead letter again",
        tag=TAG,
        handler=redrive,
        parameters=ById,
        answers=(
            Answer(202, "The next run is in the queue.", InvocationView),
            Answer(200, "Another request had redriven it.", InvocationView),
        ),
        errors=(404, 409),
    ),
)
