"""The API's own world, on the real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipment.fixtures import fault_proxy
from kube.http.conftest import installed, ready_node, world

__all__ = ["fault_proxy", "installed", "ready_node", "world"]


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """A fresh folder for each process of a test."""

    def fresh() -> Iterator[Path]:
        number = 0
        while True:
            folder = tmp_path / f"process-{(number := number + 1)}"
            folder.mkdir()
            yield folder

    return fresh()
