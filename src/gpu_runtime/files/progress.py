"""The progress lines of a copy: the copy writes them, and the controller reads them from the log of its pod."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpu_runtime.files.sizes import readable

_LINE = re.compile(
    r"(?:copied (?P<files>\d+) of (?P<files_total>\d+) files, .*|done: copied (?P<all>\d+) files, .*)"
    r" \(bytes (?P<bytes>\d+)/(?P<bytes_total>\d+)\)"
)


class Progress(NamedTuple):
    """Copied files and bytes, and their totals. Folders are not counted; holes in files are."""

    files: int
    files_total: int
    bytes: int
    bytes_total: int

    @property
    def line(self) -> str:
        """Such as `copied 12 of 100 files, 1.2 MiB of 3.4 GiB (bytes 1258291/3650722201)`."""
        amount = f"{readable(self.bytes)} of {readable(self.bytes_total)}"
        return f"copied {self.files} of {self.files_total} files, {amount} {self._exact}"

    @property
    def done_line(self) -> str:
        """The last line of a copy: all of it has reached the disk."""
        return f"done: copied {self.files} files, {readable(self.bytes)} {self._exact}"

    @property
    def _exact(self) -> str:
        return f"(bytes {self.bytes}/{self.bytes_total})"


def parse_progress(line: str) -> Progress | None:
    """The progress in a line of a copy's output; None for any other line."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    files = int(found["files"] or found["all"])
    total = int(found["files_total"] or found["all"])
    return Progress(files, total, int(found["bytes"]), int(found["bytes_total"]))
