"""Container output as log files in the form that kubelets and log collectors know: time, stream, F or P, text.

Rotation bounds what one container can fill: `files` files of `limit` bytes, the current one under its plain name.
"""

from __future__ import annotations

import contextlib
import os
import time

LONGEST_LINE = 16 * 1024


class LogFile:
    """Appends the output of one run of one container."""

    def __init__(self, path: str, limit: int, files: int) -> None:
        self.path, self.limit, self.files = path, limit, files
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._open()

    def _open(self) -> None:
        self._descriptor = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, entries: list[bytes]) -> None:
        """Appends whole entries; a full disk loses them, never the container."""
        batch: list[bytes] = []
        size = self._size
        for entry in entries:
            if size and size + len(entry) > self.limit:
                self._append(b"".join(batch))
                batch, size = [], 0
                self._rotate()
            batch.append(entry)
            size += len(entry)
        self._append(b"".join(batch))

    def _append(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._size += os.write(self._descriptor, data)

    def _rotate(self) -> None:
        os.close(self._descriptor)
        for number in range(self.files - 1, 0, -1):
            older, newer = f"{self.path}.{number}", f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(newer):
                os.replace(newer, older)
        if self.files == 1:
            os.unlink(self.path)
        self._open()

    def close(self) -> None:
        os.close(self._descriptor)


class Stream:
    """Cuts one output stream into log entries."""

    def __init__(self, name: str, log: LogFile) -> None:
        self.name, self._name, self._log = name, name.encode(), log
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        stamp = _now()
        entries = [entry for line in lines for entry in self._entries(line, stamp)]
        while len(self._rest) >= LONGEST_LINE:
            entries.append(self._entry(self._rest[:LONGEST_LINE], stamp, b"P"))
            self._rest = self._rest[LONGEST_LINE:]
        if entries:
            self._log.write(entries)

    def end(self) -> None:
        """Writes what came after the last line break."""
        if self._rest:
            self._log.write([self._entry(self._rest, _now(), b"P")])
            self._rest = b""

    def _entries(self, line: bytes, stamp: bytes) -> list[bytes]:
        parts = [line[start : start + LONGEST_LINE] for start in range(0, len(line), LONGEST_LINE)] or [b""]
        return [self._entry(part, stamp, b"F" if part is parts[-1] else b"P") for part in parts]

    def _entry(self, text: bytes, stamp: bytes, tag: bytes) -> bytes:
        return b"%b %b %b %b\n" % (stamp, self._name, tag, text)


def _now() -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09d}Z").encode()
