"""The complete real cluster, on which the walkthroughs must end as on the embedded one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import realkube
from local.walkthroughs.site import Site, fresh_site
from realkube.site import INDEX_VARIABLE
from realkube.site import Site as Place

pytest.register_assert_rewrite(
    "local.walkthroughs.test_failures",
    "local.walkthroughs.test_storage",
    "local.walkthroughs.test_storage_failures",
    "local.walkthroughs.test_walkthroughs",
)

CLUSTER = "5"  # not the one that somebody may have running
RUNNING = "GPU_RUNTIME_TEST_CLUSTER"
"""A complete cluster that already runs, by its kubeconfig."""
MEMORY = "512Mi"  # the printed 16Gi are more than the node has


@pytest.fixture(scope="package")
def cluster() -> Iterator[Path]:
    """The kubeconfig of a complete cluster."""
    if running := os.environ.get(RUNNING):
        yield Path(running)
        return
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(INDEX_VARIABLE, CLUSTER)
        environment.setenv("PYTHONPATH", str(Path(realkube.__file__).parents[1]))
        command = [sys.executable, "-m", "realkube"]
        try:
            subprocess.run([*command, "up"], check=True)
            yield Place.from_environment().kubeconfig
        finally:
            subprocess.run([*command, "down"], check=False)


@pytest.fixture
def site(cluster: Path, tmp_path: Path) -> Iterator[Site]:
    left_out: list[str] = []
    with fresh_site(tmp_path, left_out, cluster, MEMORY) as site:
        yield site
    assert left_out == [], "on a real cluster every line is run"


@pytest.fixture(scope="module")
def failing_site(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with fresh_site(tmp_path_factory.mktemp("failing"), [], cluster) as site:
        yield site
