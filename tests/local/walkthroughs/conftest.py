"""A fresh installation for each walkthrough: the embedded cluster, or the one that a variable names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipment.walkthrough import PRINTED_MEMORY
from local.walkthroughs.site import Site, fresh_site
from local.workloads.embedded import local_cluster

CLUSTER = "GPU_RUNTIME_TEST_CLUSTER"
"""Kubeconfig of a cluster to run the walkthroughs on in place of the embedded one; what earlier runs left goes."""
MEMORY = "GPU_RUNTIME_TEST_MEMORY"
"""Memory of a unit there, in place of what is printed."""

left_out: list[str] = []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    cluster = os.environ.get(CLUSTER)
    memory = os.environ.get(MEMORY, PRINTED_MEMORY)
    with fresh_site(tmp_path, left_out, Path(cluster) if cluster else None, memory) as site:
        yield site


@pytest.fixture(scope="module")
def failing_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation on a cluster that lacks some images, as every cluster does."""
    folder = tmp_path_factory.mktemp("failing")
    if cluster := os.environ.get(CLUSTER):
        with fresh_site(folder, left_out, Path(cluster)) as site:
            yield site
        return
    data = folder / "cluster"
    with (
        local_cluster(data, folder / "cluster.log", "--missing-image", "*/missing:*"),
        fresh_site(folder, left_out, data / "kubeconfig") as site,
    ):
        yield site


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left_out:
        terminalreporter.write_line(f"{len(left_out)} steps were left out for want of a kubectl: {', '.join(left_out)}")
