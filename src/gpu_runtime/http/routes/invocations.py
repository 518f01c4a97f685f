"""Invocations of serverless functions over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta, Raw

from gpu_runtime.api.validation import FieldError
from gpu_runtime.http.batches import BATCH_SECONDS, submit_all
from gpu_runtime.http.deadline import extend_deadline
from gpu_runtime.http.live import SEEN, STREAM, send_live
from gpu_runtime.http.parameters import InstanceNamespace, Limit, PageToken
from gpu_runtime.http.route import JSON, Answer, AnyRoute, Call, Nothing, Reply, Route, decoded_json
from gpu_runtime.http.waits import WaitTime, seconds_of, wait
from gpu_runtime.rest.errors import InvalidRequest, TooManyRequests
from gpu_runtime.rest.invocations import (
    BatchVerdict,
    FunctionName,
    InvocationID,
    InvocationView,
    State,
    SubmitBatch,
    SubmitInvocation,
)
from gpu_runtime.service.invocations.acceptance import ACCEPT_SECONDS, Accepted
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.listing import Wanted
from gpu_runtime.service.invocations.lookup import FoundRun
from gpu_runtime.service.invocations.submission import Payload, Submission, content_type_of
from gpu_runtime.service.listing import PAGE_SIZE

PATH = "/serverless/invocations"
TAG = "invocations"
DESCRIPTION_HEADER = "X-Invocation"
BATCH_EXAMPLE = {"invocations": [{"serverlessRequestID": "echo", "invocationID": f"inv-{n}"} for n in (1, 2)]}
DESCRIPTION = (
    f"A payload that is not JSON is sent as the body, with its Content-Type; then the header `{DESCRIPTION_HEADER}` "
    'holds the other fields as JSON, such as `{"serverlessRequestID": "echo", "mode": "sync"}`.'
)
EXAMPLE = {"serverlessRequestID": "echo", "invocationID": "inv-1", "mode": "async", "payload": {"x": 1}}

OfFunction = Annotated[
    FunctionName | None, Meta(description="Name of the function. Needed if several have an invocation of this id.")
]


class ById(msgspec.Struct, frozen=True):
    invocationID: Annotated[InvocationID, Meta(description="The id of the invocation.")]


class OneInvocation(msgspec.Struct, frozen=True):
    function: OfFunction = None
    namespace: InstanceNamespace = None


class GetInvocation(OneInvocation, frozen=True):
    wait: WaitTime = "0"


class RetryInvocation(OneInvocation, frozen=True):
    run: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="The run that did not succeed. With it, repeated requests begin one further run at most."),
    ] = None


class ListInvocations(msgspec.Struct, frozen=True):
    namespace: InstanceNamespace = None
    function: Annotated[FunctionName | None, Meta(description="Only invocations of this function.")] = None
    state: Annotated[State | None, Meta(description="Only invocations in this state.")] = None
    since: Annotated[datetime | None, Meta(description="Only those accepted at this time or later.")] = None
    until: Annotated[datetime | None, Meta(description="Only those accepted before this time.")] = None
    limit: Limit = PAGE_SIZE
    token: PageToken = msgspec.field(default="", name="continue")


class _WrittenBatch(msgspec.Struct):
    invocations: list[dict[str, Raw]]


async def submit(call: Call[SubmitInvocation, Nothing, Nothing]) -> Reply:
    invocations = call.services.serverless.invocations
    submission = Submission.of(
        call.body, call.sent, _payload(call), namespace=invocations.namespace(call.body.namespace)
    )
    extend_deadline(call.request, ACCEPT_SECONDS)
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
    invocations, found = call.services.serverless.invocations, accepted.found
    with suppress(TooManyRequests):  # there is no room to wait, and it must not look as if it was refused
        found = await _waited(call, invocations, found, seconds)
    view = await invocations.view(found, duplicate=accepted.duplicate)
    return Reply(view, 200 if found.end is not None else 202)


async def _waited(call: Call[Any, Any, Any], invocations: Invocations, found: FoundRun, seconds: float) -> FoundRun:
    if found.end is not None or seconds <= 0:
        return found

    async def step(seconds: float) -> FoundRun | None:
        later = await invocations.wait(found, seconds)
        return later if later.end is not None else None

    return await wait(call.request, seconds, step) or found


async def submit_batch(call: Call[SubmitBatch, Nothing, Nothing]) -> Reply:
    invocations = call.services.serverless.invocations
    written = msgspec.json.decode(call.raw, type=_WrittenBatch).invocations
    sent = call.sent["invocations"]
    if errors := [
        FieldError(f"invocations[{place}].mode", "must be async: the answer to a batch waits for no end")
        for place, request in enumerate(call.body.invocations)
        if request.mode == "sync"
    ]:
        raise InvalidRequest.of(errors)
    submissions = [
        Submission.of(
            request,
            sent[place],
            _written_payload(written[place], sent[place]),
            namespace=invocations.namespace(request.namespace),
            where=f"invocations[{place}].",
        ).with_id()
        for place, request in enumerate(call.body.invocations)
    ]
    extend_deadline(call.request, BATCH_SECONDS + 5)
    return Reply(await submit_all(invocations, submissions))


async def list_all(call: Call[Nothing, ListInvocations, Nothing]) -> Reply:
    serverless, asked = call.services.serverless, call.query
    found = await serverless.listing.page(
        Wanted(
            namespace=serverless.invocations.namespace(asked.namespace),
            function=asked.function,
            state=asked.state,
            since=_aware(asked.since),
            until=_aware(asked.until),
            limit=asked.limit,
            token=asked.token,
        )
    )
    return Reply(found.items, token=found.token)


async def cancel(call: Call[Nothing, OneInvocation, ById]) -> Reply:
    serverless = call.services.serverless
    found = await serverless.invocations.find(call.path.invocationID, call.query.function, call.query.namespace)
    return Reply(await serverless.invocations.view(await serverless.changes.cancel(found)))


async def retry(call: Call[Nothing, RetryInvocation, ById]) -> Reply:
    serverless = call.services.serverless
    found = await serverless.invocations.find(call.path.invocationID, call.query.function, call.query.namespace)
    accepted = await serverless.changes.retry(found, call.query.run)
    view = await serverless.invocations.view(accepted.found, duplicate=accepted.duplicate)
    return Reply(view, 200 if accepted.duplicate else 202)


async def stream(call: Call[Nothing, OneInvocation, ById]) -> web.StreamResponse:
    invocations = call.services.serverless.invocations
    found = await invocations.find(call.path.invocationID, call.query.function, call.query.namespace)
    return await send_live(call.request, invocations, found)


def _aware(time: datetime | None) -> datetime | None:
    """A time without a zone is UTC."""
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def _payload(call: Call[SubmitInvocation, Nothing, Nothing]) -> Payload:
    """The payload as the client wrote it: in the body's `payload`, or the body itself if a header describes it."""
    if DESCRIPTION_HEADER not in call.request.headers:
        return _written_payload(msgspec.json.decode(call.raw, type=dict[str, Raw]), call.sent)
    if "payload" in call.sent:
        raise InvalidRequest(f"payload: leave it out of the header {DESCRIPTION_HEADER}, the body is the payload")
    kind = content_type_of(call.request.headers.get("Content-Type"))
    if kind != JSON:
        return Payload(call.raw, kind)
    return Payload(call.raw, value=decoded_json(call.raw, "the body"))


def _written_payload(written: Mapping[str, Raw], sent: Mapping[str, Any]) -> Payload:
    """The payload with the bytes that the client wrote: decoding changes numbers such as 1.0."""
    return Payload(bytes(written.get("payload", Raw(b"null"))), value=sent.get("payload"))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=PATH,
        summary="Call a function",
        description=DESCRIPTION,
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
        method="POST",
        path=f"{PATH}/batch",
        summary="Call functions many times",
        tag=TAG,
        handler=submit_batch,
        body=SubmitBatch,
        large=True,
        example=BATCH_EXAMPLE,
        answers=(Answer(200, "What became of each, in order.", list[BatchVerdict]),),
    ),
    Route(
        method="GET",
        path=PATH,
        summary="List invocations, newest first",
        tag=TAG,
        handler=list_all,
        query=ListInvocations,
        answers=(Answer(200, "The invocations, without the bodies of results.", list[InvocationView], paged=True),),
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
    Route(
        method="POST",
        path=f"{PATH}/{{invocationID}}/cancel",
        summary="Cancel an invocation that has not ended",
        tag=TAG,
        handler=cancel,
        query=OneInvocation,
        parameters=ById,
        answers=(Answer(200, "It is cancelled, now or before.", InvocationView),),
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{PATH}/{{invocationID}}/retry",
        summary="Run an invocation again that did not succeed",
        tag=TAG,
        handler=retry,
        query=RetryInvocation,
        parameters=ById,
        answers=(
            Answer(202, "The next run is in the queue.", InvocationView),
            Answer(200, "Another request had begun the next run.", InvocationView),
        ),
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{PATH}/{{invocationID}}/stream",
        summary="Follow an invocation until its end",
        tag=TAG,
        handler=stream,
        query=OneInvocation,
        parameters=ById,
        answers=(STREAM, SEEN),
        errors=(404, 409),
    ),
)
