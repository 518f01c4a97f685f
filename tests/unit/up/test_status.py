from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from equipment.mutation import mutant
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.cmd.up.status import ProcessStatus, Status, duration, read_status, table
from gpu_runtime.supervisor.folder import Record
from gpu_runtime.supervisor.holder import hold
from gpu_runtime.supervisor.identity import Identity

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def a_record(name: str) -> Record:
    me = Identity.of(os.getpid())
    assert me is not None
    return Record(
        name=name,
        identity=me,
        digest="",
        since=NOW - timedelta(seconds=90),
        restarts=2,
        address="http://127.0.0.1:8080",
        health="http://127.0.0.1:1/readyz",
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.at(tmp_path)
    layout.supervised.make()
    return layout


def test_a_process_that_does_not_answer_is_not_ready_and_one_that_is_gone_is_dead(layout: Layout) -> None:
    layout.supervised.write(a_record("api"))
    gone = a_record("proxy")
    layout.supervised.write(msgspec.structs.replace(gone, identity=msgspec.structs.replace(gone.identity, started="1")))
    with hold(layout.supervised.lock):
        status = read_status(layout)
    assert not status.healthy
    assert status.supervisor is not None
    assert table(status, NOW) == [
        ("NAME", "STATE", "PID", "PORT", "RESTARTS", "UPTIME", "PROBLEM"),
        ("api", "not ready", str(os.getpid()), "8080", "2", "1m30s", "does not answer"),
        ("proxy", "dead", str(os.getpid()), "8080", "2", "-", "being started again"),
    ]


def test_processes_without_a_supervisor_are_not_healthy(layout: Layout) -> None:
    layout.supervised.write(a_record("api"))
    status = read_status(layout)
    assert status.supervisor is None
    assert not status.healthy


@mutant("cmd/up/status.py", "self.supervisor is not None and all(", "all(")
def test_ready_processes_that_nobody_would_start_again_are_not_healthy() -> None:
    assert not Status(None, (ProcessStatus(a_record("api"), "ready"),)).healthy


def test_a_dead_process_without_a_supervisor_is_not_said_to_be_started_again(layout: Layout) -> None:
    gone = a_record("api")
    layout.supervised.write(msgspec.structs.replace(gone, identity=msgspec.structs.replace(gone.identity, started="1")))
    (seen,) = read_status(layout).processes
    assert (seen.state, seen.problem) == ("dead", "not restarted: no supervisor runs")


def test_nothing_is_there_before_the_first_start(tmp_path: Path) -> None:
    status = read_status(Layout.at(tmp_path / "never"))
    assert status.processes == ()
    assert status.supervisor is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m"), (3_725, "1h2m"), (90_061, "1d1h"), (172_800, "2d")]
)
def test_durations_read_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
