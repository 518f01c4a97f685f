"""Counts what a copy has done, and writes a line about it every two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpu_runtime.files.progress import Progress

EVERY_SECONDS = 2.0


class Reporter:
    """Writes one line at the start, at most one every two seconds, and one at the end."""

    def __init__(self, write_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.write_line = write_line
        self.progress = Progress(0, 0, 0, 0)
        self._clock = clock
        self._written_at = 0.0

    def begin(self, files: int, size: int) -> None:
        self.progress = Progress(0, files, 0, size)
        self._write_progress()

    def file_copied(self) -> None:
        self.progress = self.progress._replace(files=self.progress.files + 1)
        self._write_if_due()

    def bytes_copied(self, count: int) -> None:
        self.progress = self.progress._replace(bytes=self.progress.bytes + count)
        self._write_if_due()

    def done(self) -> Progress:
        self.write_line(self.progress.done_line)
        return self.progress

    def _write_if_due(self) -> None:
        if self._clock() - self._written_at >= EVERY_SECONDS:
            self._write_progress()

    def _write_progress(self) -> None:
        self._written_at = self._clock()
        self.write_line(self.progress.line)
