"""Counts what a copy has done, and says so in regular lines."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpu_runtime.files.progress import Progress

EVERY_SECONDS = 2.0


class Reporter:
    """Says one line at the start, at most one every two seconds, and one at the end."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.say = say
        self.progress = Progress(0, 0, 0, 0)
        self._clock = clock
        self._said_at = 0.0

    def begin(self, files: int, size: int) -> None:
        self.progress = Progress(0, files, 0, size)
        self._say_progress()

    def file_copied(self) -> None:
        self.progress = self.progress._replace(files=self.progress.files + 1)
        self._say_in_time()

    def bytes_copied(self, count: int) -> None:
        self.progress = self.progress._replace(bytes=self.progress.bytes + count)
        self._say_in_time()

    def done(self) -> Progress:
        self.say(self.progress.done_line)
        return self.progress

    def _say_in_time(self) -> None:
        if self._clock() - self._said_at >= EVERY_SECONDS:
            self._say_progress()

    def _say_progress(self) -> None:
        self._said_at = self._clock()
        self.say(self.progress.line)
