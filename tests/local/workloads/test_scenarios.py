"""The scenarios on the embedded cluster."""

from __future__ import annotations

import pytest

from local.workloads.running import Runs
from local.workloads.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_ends_as_its_picture_shows(name: str, runs: Runs) -> None:
    runs.result(name)
