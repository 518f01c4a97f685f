"""Container logs as `kubectl logs` asks for them, out of the files that the pods' shims write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from gpu_runtime.local.apiserver.logs import LogQuery
from gpu_runtime.local.node.records import PodFiles

POLL_SECONDS = 0.1


class PodLogs:
    """Reads the logs below one data directory, whether or not an agent runs: the files hold everything."""

    def __init__(self, data_dir: Path, poll_seconds: float = POLL_SECONDS) -> None:
        self._pods, self._poll_seconds = data_dir / "pods", poll_seconds

    async def read(self, pod: Mapping[str, Any], query: LogQuery) -> AsyncIterator[bytes]:
        """The container's output in pieces; FileNotFoundError when there is none."""
        files = PodFiles(self._pods / str(pod["metadata"]["uid"]))
        attempt = _attempt(files, query.container, previous=query.previous)
        left = query.limit_bytes
        async for entries in self._entries(files, query, attempt):
            text = b"".join(entry_text(entry, timestamps=query.timestamps) for entry in entries)
            piece = text if left is None else text[:left]
            if piece:
                yield piece
            left = None if left is None else left - len(piece)
            if left == 0:
                return

    async def _entries(self, files: PodFiles, query: LogQuery, attempt: int) -> AsyncIterator[list[bytes]]:
        """The entries that the query selects. With `follow`, also new entries until the container ends."""
        tail = _Tail(files.log(query.container, attempt))
        try:
            yield chosen(tail.read(), query)
            while query.follow:
                # Check this before reading: only the log of an ended container is complete.
                ended = _ended(files, query.container, attempt)
                if entries := tail.read():
                    yield entries
                elif ended:
                    return
                else:
                    await asyncio.sleep(self._poll_seconds)
        finally:
            tail.close()


class _Tail:
    """Whole lines of a file, in order, also across its rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._rest = b""

    def read(self) -> list[bytes]:
        data = self._file.read()
        if not data and self._rotated():
            self._file.close()
            self._file = self._path.open("rb")
            data = self._file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def _rotated(self) -> bool:
        try:
            return self._path.stat().st_ino != Path(f"/proc/self/fd/{self._file.fileno()}").stat().st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._file.close()


def chosen(entries: list[bytes], query: LogQuery) -> list[bytes]:
    """The entries that the query selects by count and by time. Pure."""
    if query.since:
        since = query.since.rstrip("Z").encode()
        entries = [entry for entry in entries if entry.partition(b" ")[0].rstrip(b"Z") >= since]
    if query.tail_lines is None:
        return entries
    return entries[-query.tail_lines :] if query.tail_lines else []


def entry_text(entry: bytes, *, timestamps: bool) -> bytes:
    """The text of one entry (`time stream tag text`); a partial line has no line break. Pure."""
    time, _, tag, text = entry.split(b" ", 3)
    line = text + (b"\n" if tag == b"F" else b"")
    return time + b" " + line if timestamps else line


def log_tail(path: Path, *, lines: int = 80, limit: int = 2048) -> str:
    """The end of a log: the termination message of a container that left none and may fall back to its log."""
    try:
        entries = path.read_bytes().splitlines()[-lines:]
    except OSError:
        return ""
    text = b"".join(entry_text(entry, timestamps=False) for entry in entries)
    return text[-limit:].decode(errors="replace")


def _attempt(files: PodFiles, container: str, *, previous: bool) -> int:
    attempts = sorted(run.attempt for run in files.runs() if run.name == container)
    wanted = attempts[-2:-1] if previous else attempts[-1:]
    if not wanted:
        raise FileNotFoundError(f"{'previous ' if previous else ''}terminated container {container!r} not found")
    return wanted[0]


def _ended(files: PodFiles, container: str, attempt: int) -> bool:
    states = [run.state for run in files.runs() if (run.name, run.attempt) == (container, attempt)]
    return not states or (states[0] is not None and states[0]["status"] == "exited")
