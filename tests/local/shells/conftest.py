"""The embedded cluster, and a person with the machine's kubectl."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from equipment.installation import kubectl
from local.shells.person import Person
from local.shells.world import somebody
from local.workloads.conftest import bed as bed  # noqa: PLC0414  the same cluster as a person starts it
from local.workloads.running import Bed


@pytest.fixture(scope="session")
def person(bed: Bed) -> Iterator[Person]:
    program = kubectl()
    if program is None:
        assert not os.environ.get("CI"), "CI needs a kubectl"
        pytest.skip("this machine has no kubectl")
    with somebody(bed.server, program) as person:
        yield person
