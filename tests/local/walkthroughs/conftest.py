"""A fresh installation for each walkthrough: the embedded cluster, or the one that a variable names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipment.installation import access, kubectl, running_up
from equipment.walkthrough import PRINTED_MEMORY, Shell
from local.walkthroughs.site import Site

CLUSTER = "GPU_RUNTIME_TEST_CLUSTER"
"""Kubeconfig of a cluster to run the walkthroughs on in place of the embedded one; what earlier runs left goes."""
MEMORY = "GPU_RUNTIME_TEST_MEMORY"
"""Memory of a unit there, in place of the printed 16Gi."""

left_out: list[str] = []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    cluster = os.environ.get(CLUSTER)
    options = ("--kubeconfig", cluster) if cluster else ()
    if cluster:
        Site.clear(access(Path(cluster), tmp_path))
    with running_up(tmp_path / "data", *options) as up:
        memory = os.environ.get(MEMORY, PRINTED_MEMORY)
        shell = Shell(up.url, up.kubeconfig, tmp_path, memory, left_out)
        yield Site(up, shell, up.kubernetes(tmp_path))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if kubectl() is None:
        terminalreporter.write_line(f"{len(left_out)} steps were left out for want of a kubectl: {', '.join(left_out)}")
