"""From a request to its operation: find the record or begin it, compare payloads, execute. The same for every type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.service.operations.executor import Executor, Request, Result
from gpu_runtime.service.operations.records import Ask, check_same
from gpu_runtime.service.operations.request_hash import request_hash


async def carry_out(
    executor: Executor[Request, Result], request: Request, sent: Mapping[str, Any], owner: str
) -> tuple[Result, bool]:
    """What the operation came to, and whether it was begun by this very request.

    OperationConflict when the id means another request. Every read of the record may find another one of its name, so
    a payload is compared before the record is followed and again before the client is answered.
    """
    executor.check(request)
    ask = Ask(executor.operation_type, request.operationID, request_hash(executor.request_type, sent), sent, owner)
    for _ in range(executor.most_turns):
        new, record = False, await executor.find(request)
        if record is None:
            record, new = await executor.begin(ask, request)
        check_same(record, ask.request_hash)
        done = await (executor.execute(record) if new else executor.replay(record))
        if done is not None:
            check_same(done.record, ask.request_hash)  # another request may have taken the id since
            return done, new
    raise Unavailable("the operation was given up several times; send the request again")
