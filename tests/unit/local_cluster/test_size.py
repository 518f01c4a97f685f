"""The embedded cluster does not grow by itself (docs/decisions/0004-embedded-cluster.md)."""

from __future__ import annotations

from pathlib import Path

import gpu_runtime.local

CEILING = 23_600
"""Lines of Python. Goes down with what is removed, toward the 20,000 that are aimed at; never up."""


def test_the_embedded_cluster_stays_below_its_ceiling() -> None:
    folder = Path(gpu_runtime.local.__file__).parent
    lines = sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))
    assert lines <= CEILING, (
        f"local/ has {lines} lines: remove what it does not need, or say in decision 4 why it grows"
    )
