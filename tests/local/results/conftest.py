from __future__ import annotations

from pathlib import Path

import pytest

from equipment.results import ResultDatabase
from gpu_runtime.config.results import ResultsSettings


@pytest.fixture
def database(tmp_path: Path) -> ResultDatabase:
    return ResultDatabase(ResultsSettings(database=f"sqlite:///{tmp_path}/a folder/results?.db"))
