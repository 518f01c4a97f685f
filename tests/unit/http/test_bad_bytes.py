"""Raw bytes that a client may send: each is a 4xx in the envelope, and none leaves a trace in the log."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from equipment.mutation import mutant
from equipment.waiting import eventually
from unit.http.offline import offline_api, send

UNITS = b"/api/v1/gpu-units"
JSON = b"Content-Type: application/json\r\n"
INVALID = (400, "invalid_request")


def post(headers: bytes = b"", body: bytes = b"", host: bytes = b"Host: localhost\r\n", media: bytes = JSON) -> bytes:
    """A POST of a unit whose length is right unless the headers frame the body themselves."""
    framed = b"Content-Length" in headers or b"Transfer-Encoding" in headers
    length = b"" if framed else b"Content-Length: %d\r\n" % len(body)
    return b"POST %b HTTP/1.1\r\n%b%b%b%bConnection: close\r\n\r\n%b" % (UNITS, host, media, headers, length, body)


def get(path: bytes = b"", headers: bytes = b"", method: bytes = b"GET") -> bytes:
    return b"%b %b%b HTTP/1.1\r\nHost: localhost\r\n%bConnection: close\r\n\r\n" % (method, UNITS, path, headers)


GZIP, DEFLATE = b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CASES: dict[str, tuple[bytes, tuple[int, str]]] = {
    "a host of no text": (post(host=b"Host: \xff\xfe\r\n"), (403, "forbidden")),
    "a host of UTF-8": (post(host="Host: ü\r\n".encode()), (403, "forbidden")),
    "no host": (post(host=b""), INVALID),
    "two hosts": (post(host=b"Host: localhost\r\nHost: evil\r\n"), INVALID),
    "If-Match of no text": (get(b"/demo", b'If-Match: "\xff"\r\n', b"DELETE"), INVALID),
    "Last-Event-ID of no text": (get(b"?watch=true", b"Last-Event-ID: \xff\r\n"), INVALID),
    "Last-Event-ID in Arabic digits": (get(b"?watch=true", "Last-Event-ID: ٣\r\n".encode()), INVALID),
    "a Last-Event-ID too long": (get(b"?watch=true", b"Last-Event-ID: %b\r\n" % (b"9" * 5000)), INVALID),
    "two Last-Event-IDs": (get(b"?watch=true", b"Last-Event-ID: 1\r\nLast-Event-ID: 2\r\n"), INVALID),
    "gzip that is none": (post(GZIP, b"nothing of the kind"), INVALID),
    "deflate that is none": (post(DEFLATE, b"nothing of the kind"), INVALID),
    "gzip that grows too large": (post(GZIP, gzip.compress(b"0" * 20_000_000)), (413, "too_large")),
    "brotli": (post(b"Content-Encoding: br\r\n", b"{}"), (415, "unsupported_media_type")),
    "an unknown encoding": (post(b"Content-Encoding: rot13\r\n", b"{}"), (415, "unsupported_media_type")),
    "a media type of no text": (post(media=b"Content-Type: \xff\r\n"), (415, "unsupported_media_type")),
    "two media types": (post(b"Content-Type: text/plain\r\n", b"{}"), INVALID),
    "a chunk without a length": (post(CHUNKED, b"zz\r\n{}\r\n0\r\n\r\n"), INVALID),
    "a chunk longer than it says": (post(CHUNKED, b"2\r\n{}more0\r\n\r\n"), INVALID),
    "chunks and a length": (post(CHUNKED + b"Content-Length: 3\r\n", b"0\r\n\r\n"), INVALID),
    "an unknown transfer": (post(b"Transfer-Encoding: gzip\r\n", b"{}"), INVALID),
    "a length of letters": (post(b"Content-Length: abc\r\n", b"{}"), INVALID),
    "a negative length": (post(b"Content-Length: -1\r\n", b"{}"), INVALID),
    "two lengths": (post(b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{}"), INVALID),
    "a length beyond all": (post(b"Content-Length: %b\r\n" % (b"9" * 30), b"{}"), INVALID),
    "a length too short": (post(b"Content-Length: 1\r\n", b"{}"), INVALID),
    "a NUL in JSON": (post(body=b'{"name":"a\x00b"}'), INVALID),
    "an escaped NUL in JSON": (post(body=b'{"name":"a\\u0000b"}'), INVALID),
    "half a surrogate in JSON": (post(body=b'{"operationID":"\\ud800"}'), INVALID),
    "no text in JSON": (post(body=b'{"\xff":"\xff"}'), INVALID),
    "deep JSON": (post(body=b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"), INVALID),
    "JSON too deep to be read": (post(body=b'{"a":' * 5000 + b"1" + b"}" * 5000), INVALID),
    "a number beyond all": (post(body=b'{"gpu":1e400}'), INVALID),
    "a NUL in a name": (get(b"/a%00b"), INVALID),
    "no text in a name": (get(b"/%ff%fe"), INVALID),
    "raw bytes in a name": (get(b"/\xff\xfe"), INVALID),
    "a raw NUL in a name": (get(b"/a\x00b"), INVALID),
    "a NUL in the query": (get(b"?namespace=%00"), INVALID),
    "no text in the query": (get(b"?%ff=%ff"), INVALID),
    "raw bytes in the query": (get(b"?\xff=\xff"), INVALID),
    "a number with two signs": (get(b"?limit=--5"), INVALID),
    "a number in Arabic digits": (get(b"?limit=%D9%A3"), INVALID),
    "an unknown expectation": (post(b"Expect: tea\r\n", b"{}"), INVALID),
    "an expectation of no text": (post(b"Expect: \xff\r\n", b"{}"), INVALID),
    "a header too long": (post(b"X-A: %b\r\n" % (b"a" * 70_000)), INVALID),
    "too many headers": (post(b"".join(b"X-%d: a\r\n" % number for number in range(500))), INVALID),
    "a line too long": (get(b"?phase=" + b"a" * 70_000), INVALID),
    "a method of no text": (get(method=b"G\xffT"), INVALID),
    "an unknown method": (get(method=b"FOO"), INVALID),
    "an unknown version": (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", INVALID),
    "an address that is none": (b"GET http://[::1/x HTTP/1.1\r\nHost: localhost\r\n\r\n", INVALID),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", INVALID),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", INVALID),
    "a NUL in a header": (get(headers=b"X-A: a\x00b\r\n"), INVALID),
    "a folded header": (get(headers=b"X-A: b\r\n c\r\n"), INVALID),
}
GONE = {
    "in its body": post(b"Content-Length: 100\r\n", b'{"a'),
    "in a chunk": post(CHUNKED, b'50\r\n{"a'),
    "in its gzip": post(GZIP + b"Content-Length: 100\r\n", gzip.compress(b'{"a":1}')[:12]),
    "in its head": b"POST /api/v1/gpu-units HT",
}


def refusal(answer: bytes) -> tuple[int, str]:
    """Status and code, from an envelope with the headers that every answer has."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"nosniff" in head, answer
    assert b"Content-Type: application/json" in head, answer
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def traces(logs: list[Any], caplog: pytest.LogCaptureFixture) -> list[object]:
    """What was logged as an error, by us or by aiohttp."""
    ours = [entry for entry in logs if entry["log_level"] in ("error", "critical") or "exc_info" in entry]
    return [*ours, *(record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR)]


@mutant("http/errors.py", 'text.encode("utf-8", "backslashreplace").decode()', "text")
@mutant("http/errors.py", "case ConnectionError():", "case ZeroDivisionError():")
@mutant("edge/runner.py", "if status >= 500 or", "if status >= 400 or")
@mutant("edge/runner.py", 'in ("", CONTINUE):', "is not None:")
@mutant("http/route.py", "UnicodeDecodeError, RecursionError)", "UnicodeDecodeError)")
@mutant("http/route.py", "_INTEGER.fullmatch(text)", 'text.lstrip("-").isdecimal()')
async def test_no_bytes_of_a_client_are_a_500_or_leave_the_envelope(caplog: pytest.LogCaptureFixture) -> None:
    with capture_logs() as logs:
        async with offline_api() as port:
            for case, (request, expected) in CASES.items():
                assert refusal(await send(port, request)) == expected, case
                assert traces(logs, caplog) == [], case
            before = changes(logs)
            for case, request in GONE.items():
                for leave in LEAVING:
                    await leave(port, request)
                    assert traces(logs, caplog) == [], case
            # A reset may take the request with it; the other two ways of leaving cannot.
            await eventually(lambda: changes(logs) >= before + 2 * 3, what="the broken requests have ended")
    assert traces(logs, caplog) == []


def changes(logs: list[Any]) -> int:
    """How many requests have an audit line."""
    return sum(entry["event"] == "change" for entry in logs)


async def close(port: int, request: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def half_close(port: int, request: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(60):
        await reader.read()
    writer.close()


async def reset(port: int, request: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    writer.transport.abort()


LEAVING: tuple[Callable[[int, bytes], Any], ...] = (close, half_close, reset)


@mutant("http/tokens.py", 'token.encode("utf-8", "surrogateescape")', "token.encode()")
async def test_a_token_of_no_text_is_not_known_and_a_second_one_is_refused(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("alice s3cret\n")
    with capture_logs() as logs:
        async with offline_api(tokenFile=str(tmp_path / "tokens")) as port:
            for value in (b"Bearer \xff\xfe", b"\xff\xfe", b"Bearer", "Bearer ü".encode()):
                answer = await send(port, get(headers=b"Authorization: %b\r\n" % value))
                assert refusal(answer) == (401, "unauthenticated"), value
            two = b"Authorization: Bearer s3cret\r\nAuthorization: Bearer other\r\n"
            assert refusal(await send(port, get(headers=two))) == INVALID
            # What a client without a token sends is not decoded, and the rest of it makes no noise either.
            assert refusal(await send(port, post(GZIP, b"nothing of the kind"))) == (401, "unauthenticated")
    assert traces(logs, caplog) == []
    assert "s3cret" not in str(logs)


@pytest.mark.parametrize("given", ["", '""', '"abc"', 'W/"1"', '"1", "2"', '"1', "1 2", '"1"x', "**"])
@mutant("http/headers.py", "if found is None:", "if False:")
async def test_an_if_match_that_cannot_guard_is_refused_and_never_counts_as_none(given: str) -> None:
    async with offline_api() as port:
        for method in (b"PUT", b"DELETE"):
            headers = f"If-Match: {given}\r\n".encode() + JSON + b"Content-Length: 2\r\n"
            answer = await send(port, get(b"/demo", headers, method) + b"{}")
            assert refusal(answer) == INVALID
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["details"][0]["field"] == "If-Match"


@pytest.mark.parametrize("given", ["*", '"17"', "17", ' "17" '])
async def test_an_if_match_of_one_version_or_of_any_is_taken(given: str) -> None:
    async with offline_api() as port:
        answer = await send(port, get(b"/demo", f"If-Match: {given}\r\n".encode(), b"DELETE"))
    assert refusal(answer) == (503, "service_unavailable")  # it went on to the cluster, which is away
