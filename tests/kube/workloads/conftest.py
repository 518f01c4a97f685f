"""The complete real cluster, for the scenarios that the embedded one must end like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import realkube
from equipment.servers import use_running
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from local.workloads.running import Bed, Runs, asked_for
from realkube.site import INDEX_VARIABLE, Site

CLUSTER = "6"  # not the one that somebody may have running
RUNNING = "GPU_RUNTIME_TEST_CLUSTER"
"""A complete cluster that already runs, by its kubeconfig."""


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with complete_cluster(tmp_path_factory.mktemp("cluster")) as bed:
        yield bed


@contextmanager
def complete_cluster(folder: Path) -> Iterator[Bed]:
    """A cluster with a node of its own. There is one at a time: each has the same place on the machine."""
    if running := os.environ.get(RUNNING):
        with use_running(Path(running), folder) as server:
            yield Bed(server, PROVISIONER)
        return
    environment = {**os.environ, INDEX_VARIABLE: CLUSTER, "PYTHONPATH": str(Path(realkube.__file__).parents[1])}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(INDEX_VARIABLE, CLUSTER)
        site = Site.from_environment()
    command = [sys.executable, "-m", "realkube"]
    try:
        subprocess.run([*command, "up"], env=environment, check=True)
        with use_running(site.kubeconfig, folder) as server:
            yield Bed(server, PROVISIONER)
    finally:
        subprocess.run([*command, "down"], env=environment, check=False)


@pytest.fixture(scope="session")
def runs(bed: Bed, request: pytest.FixtureRequest) -> Iterator[Runs]:
    runs = Runs(bed, asked_for(request.session))
    yield runs
    runs.close()
