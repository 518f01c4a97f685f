"""Every answer that a framework can give has one defined end."""

# ruff: noqa: E501  the table has one row a line

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from equipment.mutation import mutant
from equipment.nats import NatsServer
from equipment.waiting import eventually
from equipment.workers import OddFramework, Queue, running_worker

TRIES = 2


@dataclass(frozen=True)
class Row:
    """An order to the framework, and the end that the invocation must have."""

    name: str
    order: dict[str, Any]
    state: str
    failure: str | None = None
    words: str = ""
    """Part of the error."""
    calls: int = 1
    status: int | None = 200
    body: Any = None
    run_seconds: int | None = None


def json_answer(answer: Any, **more: Any) -> dict[str, Any]:
    return {"do": "json", "answer": answer, **more}


def lines(*values: Any, **more: Any) -> dict[str, Any]:
    return {"do": "stream", "lines": [json.dumps(value) + "\n" for value in values], **more}


DEAD = ("dead_lettered", "retry_exhausted")
ROWS = [
    Row("a result", json_answer({"statusCode": 201, "body": {"a": 1}}), "succeeded", status=201, body={"a": 1}),
    Row("an empty answer", json_answer({}), "succeeded"),
    Row("headers and a content type", json_answer({"contentType": "a/b", "headers": {"k": "v"}}), "succeeded"),
    Row("other bytes", {"do": "text", "text": "plain words"}, "succeeded", body=b"plain words"),
    Row("bytes that are no text", {"do": "text", "text": "\xff\x00", "type": "image/png"}, "succeeded", body=b"\xff\x00"),
    Row("a status of 500 in a good answer", json_answer({"statusCode": 500, "error": "sad"}), *DEAD, "sad", TRIES, 500),
    Row("an error without a status", json_answer({"error": "sad"}), *DEAD, "2 times the invocation failed", TRIES),
    Row("a status of 422", json_answer({"statusCode": 422, "error": "bad x"}), "failed", "framework_error", "bad x", 1, 422),
    Row("a status of 404 without words", json_answer({"statusCode": 404}), "failed", "framework_error", "404", 1, 404),
    Row("HTTP 500", {"do": "text", "status": 500, "text": "out of memory"}, *DEAD, "HTTP 500: out of memory", TRIES, 500),
    Row("HTTP 500 with an error", json_answer({"error": "boom"}, status=500), *DEAD, "error: boom", TRIES),
    Row("HTTP 400", {"do": "text", "status": 400, "text": "no"}, "failed", "framework_error", "HTTP 400: no", 1, 400),
    Row("HTTP 302", {"do": "text", "status": 302, "text": ""}, *DEAD, "HTTP 302", TRIES, 502),
    Row("JSON of another kind", json_answer({"foo": 1}), *DEAD, "foo", TRIES, 502),
    Row("a JSON list", json_answer([1]), *DEAD, "is not an answer", TRIES, 502),
    Row("broken JSON", {"do": "text", "type": "application/json", "text": "{"}, *DEAD, "is not an answer", TRIES, 502),
    Row("JSON that is not UTF-8", {"do": "text", "type": "application/json", "text": '{"body":"\xff"}'}, *DEAD, "utf-8", TRIES, 502),
    Row("a status that HTTP does not have", json_answer({"statusCode": 9999}), *DEAD, "statusCode", TRIES, 502),
    Row("a header with a line break", json_answer({"headers": {"k": "a\r\nb: c"}}), "failed", "framework_answer", "'k'", 1, 502),
    Row("headers without end", json_answer({"headers": {"k": "v" * 20_000}}), "failed", "framework_answer", "20001 bytes", 1, 502),
    Row("no HTTP at all", {"do": "garbage"}, *DEAD, "did not answer with HTTP", TRIES, 502),
    Row("a closed connection", {"do": "hang-up"}, *DEAD, "closed the connection", TRIES, 502),
    Row("half an answer", {"do": "hang-up-within"}, *DEAD, "closed the connection", TRIES, 502),
    Row("too much", {"do": "large", "bytes": 3_000_000}, "failed", "framework_answer", "larger than 2000000 bytes", 1, 502),
    Row("too long", {"do": "sleep"}, *DEAD, "did not answer within 1 s", TRIES, 504, run_seconds=1),
    Row("a slow drip", {"do": "drip"}, *DEAD, "did not answer within 1 s", TRIES, 504, run_seconds=1),
    Row("a failure that passes", {"do": "fail-first", "times": 1}, "succeeded", calls=2),
    Row("a stream", lines({"output": 1}, {"output": 2}, {"result": "done"}), "succeeded", body="done"),
    Row("an event stream", {"do": "stream", "type": "text/event-stream", "lines": [': hi\n\ndata: {"output": 1}\n\nevent: x\ndata: {"result": 5}\n\n']}, "succeeded", body=5),
    Row("a stream in odd pieces", {"do": "stream", "lines": ['{"out', 'put":1}\n{"resu', 'lt":{"a":[1]}}']}, "succeeded", body={"a": [1]}),
    Row("a stream with an error", lines({"output": 1}, {"error": "sad", "statusCode": 500}), *DEAD, "sad", TRIES, 500),
    Row("a stream with the caller's error", lines({"error": "bad", "statusCode": 400}), "failed", "framework_error", "bad", 1, 400),
    Row("a stream without a result", lines({"output": 1}), *DEAD, "ended without", TRIES, 502),
    Row("a stream of other lines", lines({"token": 1}), *DEAD, "not of the contract", TRIES, 502),
    Row("a stream of empty objects", lines({}), *DEAD, "neither output nor result", TRIES, 502),
]  # fmt: skip


@mutant("serverless/worker/invocation.py", "self.decided(self)", "pass")
async def test_each_answer_has_its_end(server: NatsServer, queue: Queue, framework: OddFramework) -> None:
    async with running_worker(server, framework.socket, concurrency=8, maxResultBytes=2_000_000):
        runs = [
            await queue.submit(f"row-{n}", row.order, max_attempts=TRIES, run_seconds=row.run_seconds)
            for n, row in enumerate(ROWS)
        ]
        ends = [await queue.wait_for_end(run) for run in runs]
        await queue.wait_until_acknowledged()
    wrong: dict[str, object] = {}
    for row, run, end in zip(ROWS, runs, ends, strict=True):
        calls = len(framework.calls(run.invocation_id))
        found: list[object] = [end.state, end.failureClass, end.statusCode, calls]
        if found != [row.state, row.failure, row.status, row.calls] or row.words not in (end.error or ""):
            wrong[row.name] = (*found, end.error)
        elif (
            row.body is not None
            and (end.body.inline() if isinstance(row.body, bytes) else await queue.body_of(end)) != row.body
        ):
            wrong[row.name] = end.body
        elif end.attempts != row.calls or (end.error is None) != (end.state == "succeeded"):
            wrong[row.name] = (end.attempts, end.error)
    assert wrong == {}


async def test_a_framework_that_crashes_with_each_call_ends_in_a_dead_letter(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    run = await queue.submit("poison", {"do": "crash"}, max_attempts=3)
    async with running_worker(server, framework.socket):
        for crash in range(3):
            await eventually(lambda: framework.process.has_ended, what=f"crash {crash + 1}")
            assert len(framework.calls()) == crash + 1
            framework.process.start()
        end = await queue.wait_for_end(run)
        after = await queue.wait_for_end(await queue.submit("after", 1))
    assert (end.state, end.failureClass, end.attempts) == ("dead_lettered", "retry_exhausted", 3)
    assert "closed the connection" in (end.error or "")
    assert after.state == "succeeded"
    assert framework.calls() == ["poison"] * 3 + ["after"]


@pytest.mark.parametrize("size", [400_000, 700_000, 1_900_000])
async def test_large_bodies_travel_both_ways(
    server: NatsServer, queue: Queue, framework: OddFramework, size: int
) -> None:
    text = "y" * size
    async with running_worker(server, framework.socket):
        end = await queue.wait_for_end(await queue.submit("large", {"text": text}))
    assert (end.state, end.body.ref is not None) == ("succeeded", size > 512 * 1024)
    assert (await queue.body_of(end))["payload"] == {"text": text}


async def test_a_payload_of_another_content_type_reaches_the_framework_as_base64(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    small, large = b"\x00\xff", b"\x00\xff" * 400_000
    async with running_worker(server, framework.socket):
        for number, data in enumerate((small, large)):
            run = await queue.submit(f"bytes-{number}", raw=data, content_type="image/png")
            request = await queue.body_of(await queue.wait_for_end(run))
            assert (request["contentType"], "payload" in request) == ("image/png", False)
            assert len(request["payloadBase64"]) == (len(data) + 2) // 3 * 4
