"""Readiness probes over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit

import msgspec

TIMEOUT_SECONDS = 2.0
LARGEST_ANSWER = 256 * 1024
SILENT = "does not answer"


class _Answer(msgspec.Struct):
    """The problems that our own processes report, or the one that nats-server reports."""

    problems: dict[str, str] = {}
    error: str = ""


async def problem(url: str) -> str | None:
    """None when the process at `url` is ready; else the problem that it reports, or SILENT."""
    answer = await _ask(url)
    if answer is None:
        return SILENT
    status, body = answer
    return None if status == 200 else _missing(status, body)


async def answers(url: str) -> bool:
    """Whether the process at `url` answers, with any status."""
    return await _ask(url) is not None


async def _ask(url: str) -> tuple[int, bytes] | None:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await _get(url)
    except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
        return None


async def _get(url: str) -> tuple[int, bytes]:
    """Sends one request on a new connection. No connection is kept: the process may restart at any time."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port, limit=LARGEST_ANSWER, ssl=_any_certificate() if parts.scheme == "https" else None
    )
    try:
        writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: */*\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.read(LARGEST_ANSWER)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return int(head.split(maxsplit=2)[1]), body


def _missing(status: int, body: bytes) -> str:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.DecodeError:
        answer = _Answer()
    return "; ".join(f"{name}: {text}" for name, text in answer.problems.items()) or answer.error or f"answers {status}"


@cache
def _any_certificate() -> ssl.SSLContext:
    """TLS without certificate checks, so no CA is needed: a probe sends no secret and trusts nothing in the answer."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
