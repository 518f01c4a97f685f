"""Where pod logs come from: the seam between the API server and whoever runs the containers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from gpu_runtime.local.apiserver.errors import Subject, bad_request, disallowed, invalid, wrong
from gpu_runtime.local.apiserver.options import Query, number, truth
from gpu_runtime.local.apiserver.records import Object


@dataclass(frozen=True)
class LogQuery:
    """What `kubectl logs` may ask."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: str = ""
    """A time in UTC; entries of before are left out."""


def log_query(query: Query, pod: str, now: datetime) -> LogQuery:
    """What a request asks for, refused where it makes no sense."""
    tail, limit, seconds = (number(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    moment = query.get("sinceTime", "")
    causes = []
    if tail is not None and tail < 0:
        causes.append(wrong("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(wrong("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and moment:
        causes.append(disallowed("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        causes.append(wrong("sinceSeconds", seconds, "must be greater than 0"))
    if "stream" in query:
        causes.append(disallowed("stream", "may not be specified"))
    if moment:
        moment = _moment(moment)
    if causes:
        raise invalid(Subject("", "", "PodLogOptions"), pod, causes)
    if seconds is not None:
        moment = _utc(now - timedelta(seconds=min(seconds, now.timestamp())))
    return LogQuery(
        container=query.get("container", ""),
        follow=truth(query, "follow"),
        previous=truth(query, "previous"),
        timestamps=truth(query, "timestamps"),
        tail_lines=tail,
        limit_bytes=limit,
        since=moment,
    )


def _moment(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"')
    return _utc(found)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


class LogSource(Protocol):
    """Gives a container's output in pieces; raises FileNotFoundError when there is none (yet)."""

    def read(self, pod: Object, query: LogQuery) -> AsyncIterator[bytes]: ...


class LogFiles:
    """Logs in files `FOLDER/<pod uid>/<container>.log`; each line is `<RFC3339Nano time> <text>`.

    `<container>.previous.log` holds what was written before the last restart; a file `<container>.ended` ends a follow.
    """

    def __init__(self, folder: Path, poll_seconds: float = 0.1) -> None:
        self._folder = folder
        self._poll_seconds = poll_seconds

    async def read(self, pod: Object, query: LogQuery) -> AsyncIterator[bytes]:
        suffix = ".previous.log" if query.previous else ".log"
        path = self._folder / str(pod["metadata"]["uid"]) / f"{query.container}{suffix}"
        with path.open("rb") as file:
            left = query.limit_bytes
            content, rest = _whole_lines(file.read(), query)
            piece = self._from_tail(content, query)
            while True:
                piece = piece if left is None else piece[:left]
                if piece:
                    yield piece
                left = None if left is None else left - len(piece)
                if left == 0 or not query.follow:
                    return
                # Asked before reading: what an ended container has written is complete.
                ended = not path.parent.is_dir() or (path.parent / f"{query.container}.ended").exists()
                content, rest = _whole_lines(rest + file.read(), query)
                if not content and ended:
                    return
                if not content:
                    await asyncio.sleep(self._poll_seconds)
                piece = shown(content, query)

    def _from_tail(self, content: bytes, query: LogQuery) -> bytes:
        lines = content.splitlines(keepends=True)
        if query.since:
            since = query.since.rstrip("Z").encode()
            lines = [line for line in lines if line.partition(b" ")[0].rstrip(b"Z") >= since]
        if query.tail_lines is not None:
            lines = lines[-query.tail_lines :] if query.tail_lines else []
        return shown(b"".join(lines), query)


def _whole_lines(content: bytes, query: LogQuery) -> tuple[bytes, bytes]:
    """What a follower is shown now, and the beginning of a line that still is being written."""
    end = content.rfind(b"\n") + 1 if query.follow else len(content)
    return content[:end], content[end:]


def shown(content: bytes, query: LogQuery) -> bytes:
    """Log lines without the time that each begins with, unless it is asked for."""
    if query.timestamps:
        return content
    return b"".join(line.partition(b" ")[2] for line in content.splitlines(keepends=True))
