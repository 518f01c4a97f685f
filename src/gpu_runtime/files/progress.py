"""The lines with which a copy says how far it is. Whoever started the copy reads them from its output."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(
    r"(?:copied (?P<files>\d+) of (?P<files_total>\d+) files, .*|done: copied (?P<all>\d+) files, .*)"
    r" \(bytes (?P<bytes>\d+)/(?P<bytes_total>\d+)\)"
)
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


class Progress(NamedTuple):
    """Files and bytes that are copied, and how many there are. Folders are not counted; holes in files are."""

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
    """The progress that a line of a copy's output tells; None for any other line."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    files = int(found["files"] or found["all"])
    total = int(found["files_total"] or found["all"])
    return Progress(files, total, int(found["bytes"]), int(found["bytes_total"]))


def readable(size: int) -> str:
    """`size` bytes in the unit that a person would choose."""
    amount, unit = float(size), "B"
    for larger in _UNITS:
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
