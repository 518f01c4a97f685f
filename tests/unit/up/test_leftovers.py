"""What an earlier `up` left: which ports stay its own, and what `down` says of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.cmd.up.down import down
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.cmd.up.run import _kept
from gpu_runtime.local.cluster.cluster import LOCK
from gpu_runtime.supervisor.folder import Record
from gpu_runtime.supervisor.holder import hold
from gpu_runtime.supervisor.identity import Identity


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.at(tmp_path)
    layout.supervised.make()
    return layout


@mutant("cmd/up/run.py", " if record.identity.running()]", "]")
def test_only_ports_of_processes_that_still_run_are_kept(layout: Layout) -> None:
    me = Identity.of(os.getpid())
    assert me is not None
    here = Record(name="a", identity=me, digest="", since=datetime.now(UTC), health="http://127.0.0.1:1001/readyz")
    gone = replace(here, name="b", identity=replace(me, started="1"), health="http://127.0.0.1:1002/readyz")
    layout.supervised.write(here)
    layout.supervised.write(gone)
    assert _kept(layout) == {1001}


@mutant("cmd/up/down.py", "return 0 if clean and pods is not None else EXIT_FAILED", "return 0")
def test_down_fails_while_a_cluster_that_up_did_not_start_uses_the_data_directory(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(layout.supervised.lock):
        pass
    cluster = layout.root / LOCK
    cluster.parent.mkdir(parents=True, exist_ok=True)
    with hold(cluster):
        assert down(layout) == 1
    assert "a cluster that `gpu-runtime up` did not start runs on" in capsys.readouterr().err
