"""Just enough of HTTP/1.1 for a worker: one request a connection, bodies with a length."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

HEAD_BYTES = 64 * 1024


class Malformed(Exception):
    """A request that cannot be answered with anything but this status and these words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Request(NamedTuple):
    method: str
    body: bytes


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """The request of a connection; None when the client went away without one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise Malformed(431, f"the head of the request is larger than {HEAD_BYTES} bytes") from error
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, _ = first.partition(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "transfer-encoding" in headers:
        raise Malformed(411, "send the body with a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise Malformed(400, "Content-Length is not a number")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        return Request(method, await reader.readexactly(int(length)))
    except asyncio.IncompleteReadError:
        return None


def encode(value: Any) -> bytes:
    """JSON on one line. ValueError or TypeError for what is not JSON, NaN included."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def answer(status: int, body: bytes, content_type: str = "application/json", extra: Mapping[str, str] = {}) -> bytes:
    return _head(status, content_type, {"Content-Length": str(len(body)), **extra}) + body


def begin_stream() -> bytes:
    return _head(200, "application/x-ndjson", {"Transfer-Encoding": "chunked"})


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


END_OF_STREAM = b"0\r\n\r\n"


def _head(status: int, content_type: str, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    lines = [f"HTTP/1.1 {status} {phrase}", f"Content-Type: {content_type}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(_one_line(line) for line in lines) + "\r\n\r\n").encode("latin-1", "replace")


def _one_line(text: str) -> str:
    """A line break in a header's value would begin another header."""
    return text.replace("\r", " ").replace("\n", " ")
