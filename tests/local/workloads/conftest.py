"""The embedded cluster as a person starts it, for the scenarios."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipment.servers import use_running
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from local.workloads.embedded import local_cluster
from local.workloads.running import Bed, Runs, asked_for
from local.workloads.scenarios import GPUS

RUNNING = "GPU_RUNTIME_TEST_LOCAL_CLUSTER"
"""An embedded cluster that already runs, by its kubeconfig."""


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    folder = tmp_path_factory.mktemp("cluster")
    if running := os.environ.get(RUNNING):
        with use_running(Path(running), folder) as server:
            yield Bed(server, PROVISIONER)
        return
    data, log = folder / "data", folder / "local-cluster.log"
    with (
        local_cluster(data, log, "--gpus", str(GPUS), "--missing-image", "missing*"),
        use_running(data / "kubeconfig", folder) as server,
    ):
        yield Bed(server, PROVISIONER)


@pytest.fixture(scope="session")
def runs(bed: Bed, request: pytest.FixtureRequest) -> Iterator[Runs]:
    runs = Runs(bed, asked_for(request.session))
    yield runs
    runs.close()
