"""The complete real cluster, and a person with the kubectl of its version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.kubectl.programs import SAME, binary
from kube.workloads.conftest import complete_cluster
from local.shells.person import Person
from local.shells.world import somebody


# Not for the whole session: the cluster must be gone before the workloads' own takes its place.
@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with (
        complete_cluster(tmp_path_factory.mktemp("cluster")) as bed,
        somebody(bed.server, binary(SAME)) as person,
    ):
        yield person
