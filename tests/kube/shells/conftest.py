"""The complete real cluster, and a person with the kubectl of its version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.kubectl.programs import SAME, binary
from kube.workloads.conftest import bed as bed  # noqa: PLC0414  one cluster serves both
from local.shells.person import Person
from local.shells.world import somebody
from local.workloads.running import Bed


@pytest.fixture(scope="session")
def person(bed: Bed) -> Iterator[Person]:
    with somebody(bed.server, binary(SAME)) as person:
        yield person
