"""The helper that turns a Python function into a framework, as a process of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from equipment.waiting import eventually
from equipment.workers import running_framework
from local.serverless.framework.client import ask, call, serving

IMPORT = "from gpu_runtime.serverless.framework import function\n"
KINDS = {
    "plain": "def main(payload):\n    return {'got': payload}\n",
    "async": "import asyncio\nasync def main(payload):\n    await asyncio.sleep(0)\n    return {'got': payload}\n",
    "decorated": IMPORT + "@function\ndef main(payload):\n    return {'got': payload}\n",
    "with the call": "def main(x, call):\n    return {'got': x, 'attempt': call.attempt, 'id': call.invocation_id}\n",
    "an object": "class Echo:\n    def __call__(self, payload):\n        return {'got': payload}\nmain = Echo()\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_the_function_is_called_with_the_payload(tmp_path: Path, kind: str) -> None:
    with running_framework(tmp_path, source=KINDS[kind]) as framework:
        said = await call(framework, {"x": [1, None, "ä"]}, attempt=2, invocationID="inv-1")
    assert (said.status, said.content_type, said.json["statusCode"]) == (200, "application/json", 200)
    assert said.json["body"]["got"] == {"x": [1, None, "ä"]}
    if kind == "with the call":
        assert (said.json["body"]["attempt"], said.json["body"]["id"]) == (2, "inv-1")


async def test_a_payload_of_another_content_type_is_bytes_and_bytes_are_a_raw_answer(tmp_path: Path) -> None:
    source = "def main(payload):\n    return payload[::-1]\n"
    with running_framework(tmp_path, source=source) as framework:
        await serving(framework)
        body = json.dumps({"payloadBase64": base64.b64encode(b"\x00\xff!").decode()}).encode()
        said = await ask(framework.socket, "POST", "/invoke", body)
    assert (said.status, said.content_type, said.body) == (200, "application/octet-stream", b"!\xff\x00")


async def test_a_reply_sets_status_content_type_and_headers(tmp_path: Path) -> None:
    source = """
from gpu_runtime.serverless.framework import Reply

def main(payload):
    if payload == "png":
        return Reply(b"png", content_type="image/png")
    if payload == "text":
        return Reply("words", content_type="text/plain")
    return Reply({"a": 1}, status=201, headers={"k": "v"})
"""
    with running_framework(tmp_path, source=source) as framework:
        png, text, other = [await call(framework, payload) for payload in ("png", "text", "json")]
    assert (png.content_type, png.body) == ("image/png", b"png")
    assert (text.content_type, text.body) == ("text/plain", b"words")
    assert other.json == {"statusCode": 201, "headers": {"k": "v"}, "body": {"a": 1}}


FAILING = """
import json
from gpu_runtime.serverless.framework import BadInput

def main(payload):
    if payload == "input":
        raise BadInput("x is missing")
    if payload == "exit":
        raise SystemExit(3)
    if payload == "library":
        json.loads("{")
    if payload == "set":
        return {1, 2}
    if payload == "nan":
        return float("nan")
    return 1 / 0
"""


@pytest.mark.parametrize(
    ("payload", "status", "words"),
    [
        ("input", 400, "x is missing (handler.py line 7, in main)"),
        ("zero", 500, "ZeroDivisionError: division by zero (handler.py line 16, in main)"),
        ("exit", 500, "SystemExit was raised: 3"),
        ("library", 500, "(handler.py line 11, in main)"),
        ("set", 500, "main returned something that is not JSON"),
        ("nan", 500, "main returned something that is not JSON"),
    ],
)
async def test_an_exception_is_a_failure_in_its_own_words(
    tmp_path: Path, payload: str, status: int, words: str
) -> None:
    with running_framework(tmp_path, source=FAILING) as framework:
        said = await call(framework, payload)
        assert (said.status, said.json["statusCode"]) == (status, status)
        assert words in said.json["error"]
        assert str(tmp_path) not in said.json["error"]
        assert ("Traceback" in framework.output) is (status == 500)
        assert (await ask(framework.socket)).status == 200, "it lives on"


STREAMING = {
    "a generator": "def main(payload):\n    for n in range(payload):\n        yield {'n': n}\n    return 'done'\n",
    "an async generator": "async def main(payload):\n    for n in range(payload):\n        yield {'n': n}\n",
}


@pytest.mark.parametrize("kind", STREAMING)
async def test_what_a_generator_yields_is_partial_output(tmp_path: Path, kind: str) -> None:
    with running_framework(tmp_path, source=STREAMING[kind]) as framework:
        some, none = await call(framework, 2), await call(framework, 0)
    result = "done" if kind == "a generator" else None
    assert some.content_type == "application/x-ndjson"
    assert some.lines == [{"output": {"n": 0}}, {"output": {"n": 1}}, {"result": result}]
    assert none.lines == [{"result": result}]


async def test_a_generator_that_fails_ends_its_stream_with_the_error(tmp_path: Path) -> None:
    source = "def main(payload):\n    if payload:\n        yield 1\n    raise ValueError('sad')\n"
    with running_framework(tmp_path, source=source) as framework:
        later, at_once = await call(framework, True), await call(framework, False)
    assert later.lines[0] == {"output": 1}
    assert later.lines[1] == {"statusCode": 500, "error": "ValueError: sad (handler.py line 4, in main)"}
    assert (at_once.status, at_once.json["statusCode"]) == (500, 500)


async def test_plain_functions_run_at_the_same_time(tmp_path: Path) -> None:
    source = """
import threading
both = threading.Barrier(2, timeout=60)

def main(payload):
    both.wait()
    return payload
"""
    with running_framework(tmp_path, source=source) as framework:
        said = await asyncio.gather(call(framework, 1), call(framework, 2))
    assert [each.json["body"] for each in said] == [1, 2]


BATCH = """
from gpu_runtime.serverless.framework import function

@function(batch=3, wait_ms=20)
def main(payloads):
    if payloads == ["short"]:
        return []
    return [ValueError("odd") if payload == "odd" else [payload, len(payloads)] for payload in payloads]
"""


async def test_a_batch_is_called_when_it_is_full_or_has_waited(tmp_path: Path) -> None:
    with running_framework(tmp_path, source=BATCH) as framework:
        await serving(framework)
        full = await asyncio.gather(*(call(framework, payload) for payload in ("a", "odd", "c")))
        alone = await call(framework, "d")
        wrong = await call(framework, "short")
    assert sorted(str(each.json.get("body")) for each in full if each.status == 200) == ["['a', 3]", "['c', 3]"]
    assert [each.json["error"] for each in full if each.status == 500] == ["ValueError: odd"]
    assert alone.json["body"] == ["d", 1]
    assert "must return a list of 1 results" in wrong.json["error"]


async def test_a_call_whose_client_goes_away_is_cancelled(tmp_path: Path) -> None:
    source = f"""
import asyncio, pathlib, time

async def main(payload):
    pathlib.Path({str(tmp_path / "begun")!r}).touch()
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        pathlib.Path({str(tmp_path / "cancelled")!r}).touch()
        raise
"""
    with running_framework(tmp_path, source=source) as framework:
        waiting = asyncio.create_task(call(framework, 1))
        await eventually((tmp_path / "begun").exists, what="the call begins")
        waiting.cancel()
        await eventually((tmp_path / "cancelled").exists, what="the call is cancelled")


async def test_sigterm_finishes_running_calls_and_removes_the_socket(tmp_path: Path) -> None:
    source = f"""
import pathlib, time

def main(payload):
    print("begun")
    while not pathlib.Path({str(tmp_path / "release")!r}).exists():
        time.sleep(0.01)
    return payload
"""
    with running_framework(tmp_path, source=source) as framework:
        waiting = asyncio.create_task(call(framework, 1))
        await eventually(lambda: "begun" in framework.output, what="the print is in the log")
        assert framework.process is not None
        framework.process.send_signal(signal.SIGTERM)
        await eventually(lambda: not framework.socket.exists(), what="no new calls are taken")
        (tmp_path / "release").touch()
        assert (await waiting).json["body"] == 1
        assert await asyncio.to_thread(framework.process.wait, 60) == 0


async def test_other_users_may_connect_and_a_leftover_socket_is_replaced(tmp_path: Path) -> None:
    with running_framework(tmp_path, source=KINDS["plain"]) as framework:
        await serving(framework)
        assert stat.S_IMODE(framework.socket.stat().st_mode) == 0o666
        framework.stop(signal.SIGKILL)
        assert framework.socket.exists()
        framework.start()
        await eventually(lambda: framework.output.count("serving") == 2, what="it serves again")
        assert (await call(framework, 1)).status == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"PUT / HTTP/1.1\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n{", 400),
        (b'POST / HTTP/1.1\r\nContent-Length: 23\r\n\r\n{"payloadBase64": "!!"}', 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
    ],
)
async def test_a_malformed_request_is_answered_in_words(tmp_path: Path, request_: bytes, status: int) -> None:
    with running_framework(tmp_path, source=KINDS["plain"]) as framework:
        await serving(framework)
        reader, writer = await asyncio.open_unix_connection(str(framework.socket))
        writer.write(request_)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert int(head.split()[1]) == status
        assert json.loads(body)["error"]
        assert (await ask(framework.socket)).status == 200, "it lives on"


@pytest.mark.parametrize(
    ("source", "words"),
    [("def other(): ...\n", "handler.py has no function named main"), ("import nothing_of_this_name\n", "line 1")],
)
async def test_a_source_that_cannot_be_served_ends_with_its_cause(tmp_path: Path, source: str, words: str) -> None:
    with running_framework(tmp_path, source=source) as framework:
        assert framework.process is not None
        assert await asyncio.to_thread(framework.process.wait, 60) == 1
        assert words in framework.output


def test_the_helper_needs_nothing_but_the_standard_library() -> None:
    """Its import is quick because it loads neither the product nor its libraries."""
    program = (
        "import sys; before = set(sys.modules); import gpu_runtime.serverless.framework.server;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["gpu_runtime"]


def test_hello_world_has_five_lines() -> None:
    assert len([line for line in Path("examples/serverless/hello.py").read_text().splitlines() if line]) == 5


async def test_hello_world_runs(tmp_path: Path) -> None:
    with running_framework(tmp_path, [sys.executable, "examples/serverless/hello.py"]) as framework:
        said = await call(framework, {"name": "world"})
    assert said.json["body"] == {"hello": "world"}
