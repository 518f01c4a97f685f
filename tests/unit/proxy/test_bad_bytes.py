"""Bytes that are no text, and bodies that are cut: a clean refusal or a clean forward, never a 500."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket

import pytest

from equipment.waiting import eventually
from unit.proxy.world import UNIT, RawUnit, proxy_to, send

HEAD = f"GET {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()


def refusal(answer: bytes) -> tuple[int, str]:
    """Status and code, from the envelope."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        pytest.param(b"GET /units/a/b/ HTTP/1.0\r\nHost: \xff\xfe\r\n\r\n", 403, "forbidden", id="a host of no text"),
        pytest.param(
            b"POST /units/a/b/ HTTP/1.0\r\nHost: localhost\r\nOrigin: \xff\r\nContent-Length: 0\r\n\r\n",
            403,
            "forbidden",
            id="an origin of no text",
        ),
        pytest.param(b"GET /units/\xff/b/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "invalid_request", id="a path"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", 400, "invalid_request", id="TLS"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, "invalid_request", id="no host"),
        pytest.param(HEAD + b"Expect: tea\r\n\r\n", 400, "invalid_request", id="an unknown expectation"),
        pytest.param(HEAD + b"Expect: \xff\r\n\r\n", 400, "invalid_request", id="an expectation of no text"),
        pytest.param(HEAD + b"X-A: " + b"a" * 9000 + b"\r\n\r\n", 400, "invalid_request", id="a header too long"),
    ],
)
async def test_what_is_no_proper_request_is_refused_in_the_envelope_and_reaches_nobody(
    request_bytes: bytes, status: int, code: str
) -> None:
    async with RawUnit().serving() as unit, proxy_to(unit.port) as port:
        answer = await send(port, request_bytes)
    assert refusal(answer) == (status, code)
    assert unit.received == []


async def test_a_header_in_latin_1_reaches_the_unit_as_utf_8() -> None:
    async with RawUnit().serving() as unit, proxy_to(unit.port) as port:
        answer = await send(port, HEAD + b"X-Name: Andr\xe9\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert "X-Name: André\r\n".encode() in unit.received[0]


async def test_an_answer_whose_headers_are_latin_1_reaches_the_client() -> None:
    said = b"HTTP/1.1 200 Andr\xe9\r\nContent-Disposition: attachment; filename=Andr\xe9\r\nContent-Length: 2\r\n\r\nok"
    async with RawUnit(said).serving() as unit, proxy_to(unit.port) as port:
        answer = await send(port, HEAD + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert "filename=André\r\n".encode() in answer
    assert answer.endswith(b"ok")


async def test_a_compressed_body_reaches_the_unit_as_the_client_sent_it() -> None:
    body = gzip.compress(b"hello " * 100)
    head = f"POST {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: gzip\r\n".encode()
    async with RawUnit().serving() as unit, proxy_to(unit.port) as port:
        answer = await send(port, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert unit.received[0].endswith(body)


async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    head = f"POST {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf".encode()
    async with RawUnit().serving() as unit, proxy_to(unit.port) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        await eventually(lambda: len(unit.received) == 1, what="the request has reached the unit")
        taken: socket.socket = writer.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not a farewell
        writer.transport.abort()
        assert (await send(port, HEAD + b"\r\n")).startswith(b"HTTP/1.1 200 ")
    assert "Traceback" not in caplog.text + capsys.readouterr().out
