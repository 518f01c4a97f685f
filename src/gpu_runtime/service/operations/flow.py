"""From a request to its operation: find the record or begin it, compare payloads, execute. The same for every type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.service.operations.executor import Executor, Request, Result
from gpu_runtime.service.operations.records import NewOperation, check_same
from gpu_runtime.service.operations.request_hash import request_hash


async def carry_out(
    executor: Executor[Request, Result], request: Request, sent: Mapping[str, Any], owner: str
) -> tuple[Result, bool]:
    """The result of the operation, and whether this call began it.

    OperationConflict when the id belongs to another request. Each read may return a newer record of the same name, so
    the payload is compared before the record is executed and again before the reply.
    """
    assert request.operationID is not None
    executor.check(request)
    wanted = NewOperation(
        executor.operation_type, request.operationID, request_hash(executor.request_type, sent), sent, owner
    )
    for _ in range(executor.max_attempts):
        new, record = False, await executor.find(request)
        if record is None:
            record, new = await executor.begin(wanted, request)
        check_same(record, wanted.request_hash)
        done = await (executor.execute(record) if new else executor.replay(record))
        if done is not None:
            check_same(done.record, wanted.request_hash)  # the id may belong to another request by now
            return done, new
    raise Unavailable("the operation was abandoned several times; send the request again")
