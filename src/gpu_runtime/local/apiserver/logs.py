"""Where pod logs come from: the seam between the API server and whoever runs the containers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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
            first = self._from_tail(file.read(), query)
            while True:
                if first:
                    piece = first if left is None else first[:left]
                    yield piece
                    left = None if left is None else left - len(piece)
                if left == 0 or not query.follow:
                    return
                first = shown(file.read(), query)
                if not first:
                    if not path.parent.is_dir() or (path.parent / f"{query.container}.ended").exists():
                        return
                    await asyncio.sleep(self._poll_seconds)

    def _from_tail(self, content: bytes, query: LogQuery) -> bytes:
        lines = content.splitlines(keepends=True)
        if query.since:
            lines = [line for line in lines if line.partition(b" ")[0].decode("ascii", "replace") >= query.since]
        if query.tail_lines is not None:
            lines = lines[-query.tail_lines :] if query.tail_lines else []
        return shown(b"".join(lines), query)


def shown(content: bytes, query: LogQuery) -> bytes:
    """Log lines without the time that each begins with, unless it is asked for."""
    if query.timestamps:
        return content
    return b"".join(line.partition(b" ")[2] for line in content.splitlines(keepends=True))
