"""Turns a Python function into a framework that a worker calls. It needs only the standard library.

    from gpu_runtime.serverless.framework import function, run

    @function
    def main(payload):
        return {"hello": payload["name"]}

    run()

The function gets the payload (JSON, or bytes for other content types) and, if it has a second parameter, a `Call`. It
may be plain (runs in a thread), async, or a generator, plain or async: what it yields is partial output, and what it
returns is the result. With `@function(batch=8, wait_ms=10)` it gets a list of payloads and returns a list of results.
"""

from __future__ import annotations

from gpu_runtime.serverless.framework.calls import BadInput, Call, Reply
from gpu_runtime.serverless.framework.functions import Function, function
from gpu_runtime.serverless.framework.running import run

__all__ = ["BadInput", "Call", "Function", "Reply", "function", "run"]
