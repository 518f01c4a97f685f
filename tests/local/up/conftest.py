from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipment.installation import Up, end, running_up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """An installation that the tests of a module share."""
    with running_up(tmp_path_factory.mktemp("shared") / "data") as up:
        yield up


@pytest.fixture
def own_up(tmp_path: Path) -> Iterator[Up]:
    """An installation that a test starts and stops itself."""
    up = Up(tmp_path / "data")
    try:
        yield up
    finally:
        end(up)
