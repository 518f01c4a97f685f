"""Answers one request for a file, a folder or an archive of a folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
import structlog
from aiohttp import hdrs, web

from gpu_runtime.edge.names import host_name
from gpu_runtime.files import archive
from gpu_runtime.files.content import content_of
from gpu_runtime.files.errors import Busy, FileNotServed, Forbidden, Incomplete, MethodNotAllowed, Refused
from gpu_runtime.files.listing import read_page
from gpu_runtime.files.names import disposition, link, parse_path
from gpu_runtime.files.pages import folder_html, folder_json
from gpu_runtime.files.ranges import Span, Unsatisfiable, Validators, precondition, span
from gpu_runtime.files.volume import Opened, Volume

T = TypeVar("T")
Query = dict[str, str]

HEALTH = "/healthz"
METHODS = ("GET", "HEAD")
MOST_REQUESTS = 64  # at once; the next one is refused, so that threads and open files are bounded
THREADS = 8
PIECE = 256 * 1024
ENTRIES, MOST_ENTRIES = 1000, 10_000  # of a page
FRESH = {hdrs.CACHE_CONTROL: "no-store"}
_log = structlog.get_logger("files")


class FilesHandler:
    """`prefix` is the beginning of every path; `hosts` are the names of the server, None for any name."""

    def __init__(self, volume: Volume, prefix: str, hosts: frozenset[str] | None) -> None:
        self._volume = volume
        self._prefix = prefix
        self._title = prefix.rpartition("/")[2] or "files"
        self._hosts = hosts
        self._running = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")

    async def close(self, _: web.Application) -> None:
        self._threads.shutdown()
        self._volume.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.raw_path == HEALTH:
            return web.Response(text="ok\n")
        if self._running >= MOST_REQUESTS:
            return response_to(Busy(f"{MOST_REQUESTS} requests are being answered: try again later"))
        self._running += 1
        try:
            return await self._answer(request)
        except Refused as refused:
            return response_to(refused)
        finally:
            self._running -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._hosts is not None and host_name(request.host) not in self._hosts:
            raise Forbidden("this server answers only to the names of its own machine")
        if request.method not in METHODS:
            raise MethodNotAllowed("the files can only be read: use GET or HEAD")
        path, _, query = request.raw_path.partition("?")
        if self._prefix and path == self._prefix:
            return _with_slash(os.fsencode(self._title))
        if not path.startswith(self._prefix + "/"):
            raise FileNotServed(f"the files are at {self._prefix}/")
        names = parse_path(path.removeprefix(self._prefix + "/"))
        opened = await self._in_thread(self._volume.open, names)
        try:
            if not opened.is_folder:
                return await self._file(request, opened, names, path)
            if not path.endswith("/"):
                return _with_slash(names[-1])
            return await self._folder(request, opened, names, _parameters(query))
        finally:
            opened.close()

    async def _folder(
        self, request: web.Request, folder: Opened, names: Sequence[bytes], query: Query
    ) -> web.StreamResponse:
        if "archive" in query:
            return await self._archive(request, folder, names, query["archive"])
        limit, after = _limit(query), os.fsencode(query.get("after", ""))
        form = _format(query, request.headers.get(hdrs.ACCEPT, ""))
        page = await self._in_thread(read_page, folder.fd, after, limit)
        if form == "json":
            return web.Response(body=folder_json(names, page, limit), content_type="application/json", headers=FRESH)
        body = folder_html(self._title, names, page, limit)
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=FRESH)

    async def _archive(
        self, request: web.Request, folder: Opened, names: Sequence[bytes], form: str
    ) -> web.StreamResponse:
        if form != "tar":
            raise Refused("archive: only tar is supported")
        name = names[-1] if names else os.fsencode(self._title)
        headers = {hdrs.CONTENT_DISPOSITION: disposition("attachment", name + b".tar"), **FRESH}
        response = web.StreamResponse(headers=headers)
        response.content_type = "application/x-tar"
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        made = archive.pieces(folder, name)
        try:
            while (piece := await self._read(request, next, made, None)) is not None:
                await response.write(piece)
        finally:
            made.close()
        await response.write_eof()
        return response

    async def _file(self, request: web.Request, file: Opened, names: Sequence[bytes], path: str) -> web.StreamResponse:
        if path.endswith("/"):
            raise FileNotServed("this is a file: its path does not end with a slash")
        content, size = Validators.of(file.info), file.info.st_size
        headers = {hdrs.ETAG: content.etag, hdrs.ACCEPT_RANGES: "bytes", hdrs.CACHE_CONTROL: "private, no-cache"}
        if content.modified is not None:
            headers[hdrs.LAST_MODIFIED] = content.last_modified
        if (status := precondition(request.headers, content)) is not None:
            return web.Response(status=status, headers=headers)
        try:
            part = _part(request, content, size)
        except Unsatisfiable:
            return web.Response(status=416, headers={**headers, hdrs.CONTENT_RANGE: f"bytes */{size}"})
        kind = content_of(names[-1])
        headers |= {hdrs.CONTENT_TYPE: kind.type, hdrs.CONTENT_DISPOSITION: kind.disposition}
        if part is not None:
            headers[hdrs.CONTENT_RANGE] = f"bytes {part.start}-{part.end - 1}/{size}"
        response = web.StreamResponse(status=200 if part is None else 206, headers=headers)
        return await self._send(request, response, file, part or Span(0, size))

    async def _send(
        self, request: web.Request, response: web.StreamResponse, file: Opened, part: Span
    ) -> web.StreamResponse:
        response.content_length = part.end - part.start
        await response.prepare(request)
        at = part.start if request.method != "HEAD" else part.end
        while at < part.end:
            piece = await self._read(request, file.read, min(PIECE, part.end - at), at)
            at += len(piece)
            await response.write(piece)
        return response

    async def _read(self, request: web.Request, call: Callable[..., T], *arguments: object) -> T:
        """Runs a call that reads the next part of a response. If it fails, the connection is cut off."""
        try:
            return await self._in_thread(call, *arguments)
        except (OSError, Incomplete) as error:
            _log.warning("a response was cut off", problem=str(error))
            if request.transport is not None:
                request.transport.abort()  # a response that just ends could look complete
            raise ConnectionResetError(str(error)) from error

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        """Runs the call in a thread. On cancellation, waits for the call: it uses files that are closed afterwards."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


def response_to(refused: Refused) -> web.Response:
    """The error response, in the format of the REST API."""
    return refusal(refused.status, str(refused), refused.code)


def refusal(status: int, message: str, code: str = Refused.code) -> web.Response:
    headers = {405: {hdrs.ALLOW: ", ".join(METHODS)}, 503: {hdrs.RETRY_AFTER: "1"}}.get(status, {})
    body = msgspec.json.encode({"error": {"code": code, "message": message, "details": []}})
    return web.Response(status=status, body=body, content_type="application/json", headers={**headers, **FRESH})


def _with_slash(name: bytes) -> web.Response:
    """Redirects to the path with a slash, which relative links need. It is relative too, to work behind any proxy."""
    return web.Response(status=308, headers={hdrs.LOCATION: f"./{link(name)}/"})


def _part(request: web.Request, content: Validators, size: int) -> Span | None:
    wanted, condition = request.headers.get(hdrs.RANGE), request.headers.get(hdrs.IF_RANGE)
    if wanted is None or (condition is not None and not content.is_same(condition)):
        return None
    return span(wanted, size)


def _parameters(query: str) -> Query:
    return dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))


def _format(query: Query, accept: str) -> str:
    form = query.get("format")
    if form is None:
        return "json" if "application/json" in accept and "text/html" not in accept else "html"
    if form not in {"json", "html"}:
        raise Refused("format: must be json or html")
    return form


def _limit(query: Query) -> int:
    text = query.get("limit", str(ENTRIES))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST_ENTRIES):
        raise Refused(f"limit: must be a number from 1 to {MOST_ENTRIES}")
    return int(text)
