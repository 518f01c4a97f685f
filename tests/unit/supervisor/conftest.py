from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runtime.supervisor.folder import Folder
from unit.supervisor.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    folder = Folder(tmp_path / "data")
    folder.make()
    return Stage(folder)
