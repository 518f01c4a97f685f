"""Sizes of files, for people."""

from __future__ import annotations

UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def readable(size: int) -> str:
    """The size in the largest unit of which it is at least one, such as `1.2 MiB`."""
    amount, unit = float(size), "B"
    for larger in UNITS:
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
