"""Answers a worker's calls: POST invokes the function, GET says that the framework can take calls. Any path will do."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from contextlib import aclosing, suppress
from typing import Any

from gpu_runtime.serverless.framework import http
from gpu_runtime.serverless.framework.calls import BadInput, Call, Reply, parse_call
from gpu_runtime.serverless.framework.failures import status_of, words
from gpu_runtime.serverless.framework.functions import Function
from gpu_runtime.serverless.framework.threads import Threads


class Server:
    """Runs the calls of one function. A call whose client goes away is cancelled."""

    def __init__(self, function: Function, threads: Threads) -> None:
        self._function, self._threads = function, threads
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self) -> None:
        """Returns when no call runs any more."""
        while self._running:
            await asyncio.wait(self._running)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._converse(reader, writer)
        except ConnectionError:
            pass  # the client went away
        finally:
            self._running.discard(task)
            with suppress(ConnectionError):
                writer.close()
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await http.read_request(reader, writer)
            if request is None:
                return
            if request.method == "GET":
                writer.write(http.answer(200, b'{"ok":true}'))
            elif request.method == "POST":
                await self._call(parse_call(request.body), reader, writer)
            else:
                raise http.Malformed(405, "only GET and POST are allowed")
        except BadInput as error:
            writer.write(failure(error))
        except http.Malformed as error:
            writer.write(http.answer(error.status, http.encode({"statusCode": error.status, "error": str(error)})))
        await writer.drain()

    async def _call(self, call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Runs the call unless the client goes away first, which is how a worker cancels it."""
        run = asyncio.create_task(self._stream(call, writer) if self._function.streams else self._answer(call, writer))
        gone = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({run, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not run.done():
                call.cancelled = True
                run.cancel()
            with suppress(asyncio.CancelledError):
                await run
        finally:
            gone.cancel()

    async def _answer(self, call: Call, writer: asyncio.StreamWriter) -> None:
        try:
            encoded = encode_result(self._function.name, await self._function.result(call, self._threads))
        except Exception as error:
            log(error)
            encoded = failure(error)
        writer.write(encoded)

    async def _stream(self, call: Call, writer: asyncio.StreamWriter) -> None:
        """Writes a line for each piece of output. An exception before the first piece is an ordinary failure."""
        returned: list[Any] = []
        begun = False
        try:
            async with aclosing(self._function.stream(call, self._threads, returned)) as items:  # type: ignore[type-var]
                async for item in items:
                    line = http.encode({"output": item}) + b"\n"
                    writer.write((b"" if begun else http.begin_stream()) + http.chunk(line))
                    begun = True
                    await writer.drain()
            last = {"result": returned[0] if returned else None}
            line = http.encode(last) + b"\n"
        except Exception as error:
            log(error)
            if not begun:
                writer.write(failure(error))
                return
            line = http.encode({"statusCode": status_of(error), "error": words(error)}) + b"\n"
        writer.write((b"" if begun else http.begin_stream()) + http.chunk(line) + http.END_OF_STREAM)


def encode_result(name: str, value: Any) -> bytes:
    """The HTTP answer with what the function returned. TypeError when that is not JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        value = Reply(value)
    reply = value if isinstance(value, Reply) else Reply(value)
    if reply.content_type != "application/json":
        return http.answer(reply.status, bytes(reply.body), reply.content_type, reply.headers)
    try:
        body = http.encode({"statusCode": reply.status, "headers": reply.headers, "body": _json_body(reply.body)})
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} returned something that is not JSON: {error}") from error
    return http.answer(200, body)


def failure(error: BaseException) -> bytes:
    status = status_of(error)
    return http.answer(status, http.encode({"statusCode": status, "error": words(error)}))


def log(error: BaseException) -> None:
    """The whole trace, for the unit's log."""
    if not isinstance(error, BadInput):
        traceback.print_exception(error, file=sys.stderr)


def _json_body(body: Any) -> Any:
    """Bytes that the user calls JSON are JSON text."""
    return json.loads(bytes(body)) if isinstance(body, bytes | bytearray | memoryview) else body
