"""Invocations of serverless functions over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gpu_runtime.http.parameters import InstanceNamespace
from gpu_runtime.http.route import JSON, Answer, AnyRoute, Call, Nothing, Reply, Route, decoded_json
from gpu_runtime.http.waits import wait
from gpu_runtime.rest.errors import InvalidRequest
from gpu_runtime.rest.invocations import FunctionName, InvocationID, InvocationView, SubmitInvocation
from gpu_runtime.service.invocations.acceptance import Accepted
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.lookup import FoundRun
from gpu_runtime.service.invocations.submission import Payload, Submission, content_type_of

PATH = "/serverless/invocations"
TAG = "invocations"
DESCRIPTION_HEADER = "X-Invocation"
EXAMPLE = {"serverlessRequestID": "echo", "invocationID": "inv-1", "mode": "async", "payload": {"x": 1}}

WaitTime = Annotated[
    str,
    Meta(
        max_length=8,
        pattern=r"^(0|[1-9][0-9]{0,2})(ms|s|m)?$",
        description="Wait for the end, up to this time: such as 30s or 2m, at most 600s.",
        extra={"hint": "a time such as 30s or 2m"},
    ),
]
OfFunction = Annotated[
    FunctionName | None, Meta(description="Name of the function. Needed if several have an invocation of this id.")
]
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}
LONGEST_WAIT = 600.0


class ById(msgspec.Struct, frozen=True):
    invocationID: Annotated[InvocationID, Meta(description="The id of the invocation.")]


class OneInvocation(msgspec.Struct, frozen=True):
    function: OfFunction = None
    namespace: InstanceNamespace = None


class GetInvocation(msgspec.Struct, frozen=True):
    function: OfFunction = None
    namespace: InstanceNamespace = None
    wait: WaitTime = "0"


async def submit(call: Call[SubmitInvocation, Nothing, Nothing]) -> Reply:
    invocations = call.services.serverless.invocations
    submission = Submission.of(
        call.body, call.sent, _payload(call), namespace=invocations.namespace(call.body.namespace)
    )
    accepted = await invocations.accept(submission)
    if call.body.mode == "sync":
        seconds = call.body.waitSeconds
        return await _at_end(
            call, accepted, seconds if seconds is not None else call.services.serverless.limits.syncWaitSeconds
        )
    view = await invocations.view(accepted.found, duplicate=accepted.duplicate)
    return Reply(view, 200 if accepted.duplicate else 202)


async def get(call: Call[Nothing, GetInvocation, ById]) -> Reply:
    invocations = call.services.serverless.invocations
    found = await invocations.find(call.path.invocationID, call.query.function, call.query.namespace)
    found = await _waited(call, invocations, found, seconds_of(call.query.wait))
    return Reply(await invocations.view(found))


async def _at_end(call: Call[SubmitInvocation, Nothing, Nothing], accepted: Accepted, seconds: float) -> Reply:
    """200 with the result, or 202 if the wait ends first."""
    invocations = call.services.serverless.invocations
    found = await _waited(call, invocations, accepted.found, seconds)
    view = await invocations.view(found, duplicate=accepted.duplicate)
    return Reply(view, 200 if found.end is not None else 202)


async def _waited(
    call: Call[Any, Any, Any],
    invocations: Invocations,
    found: FoundRun,
    seconds: float,
) -> FoundRun:
    if found.end is not None or seconds <= 0:
        return found

    async def step(seconds: float) -> FoundRun | None:
        later = await invocations.wait(found, seconds)
        return later if later.end is not None else None

    return await wait(call.request, seconds, step) or found


def seconds_of(text: str) -> float:
    """The seconds of a time such as 30s. The pattern of the parameter was checked before."""
    number = text.rstrip("ms")
    return min(int(number) * _UNITS[text.removeprefix(number)], LONGEST_WAIT)


def _payload(call: Call[SubmitInvocation, Nothing, Nothing]) -> Payload:
    """The payload as the client wrote it: in the body's `payload`, or the body itself if a header describes it."""
    if DESCRIPTION_HEADER not in call.request.headers:
        written = msgspec.json.decode(call.raw, type=dict[str, msgspec.Raw]).get("payload")
        return Payload(bytes(written) if written is not None else b"null", value=call.sent.get("payload"))
    if "payload" in call.sent:
        raise InvalidRequest(f"payload: leave it out of the header {DESCRIPTION_HEADER}, the body is the payload")
    kind = content_type_of(call.request.headers.get("Content-Type"))
    if kind != JSON:
        return Payload(call.raw, kind)
    return Payload(call.raw, value=decoded_json(call.raw, "the body"))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Call a function",
        tag=TAG,
        handler=submit,
        body=SubmitInvocation,
        large=True,
        described_by=DESCRIPTION_HEADER,
        example=EXAMPLE,
        answers=(
            Answer(202, "It is in the queue, and survives any crash from now on.", InvocationView),
            Answer(200, "Its end (mode sync), or the same request was made before.", InvocationView),
        ),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{invocationID}}",
        summary="Get an invocation, or wait for its end",
        tag=TAG,
        handler=get,
        query=GetInvocation,
        parameters=ById,
        answers=(Answer(200, "The invocation.", InvocationView),),
        errors=(404, 409),
    ),
)
