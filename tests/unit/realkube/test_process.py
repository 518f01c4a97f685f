"""Child processes and waiting for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from realkube.errors import RealKubeError
from realkube.process import Process, free_ports, must_run, wait_until


def test_a_program_that_ends_is_reported_with_its_last_error(tmp_path: Path) -> None:
    script = "echo 'I0101 00:00:00.1 7 a.go:1] fine'; echo 'E0101 00:00:00.2 7 b.go:2] port is taken'; exit 3"
    process = Process("server", ["sh", "-c", script], tmp_path / "log")

    with pytest.raises(RealKubeError, match=r"server ended with status 3: port is taken \(log: .*\)"):
        wait_until(lambda: False, "it is ready", [process])


def test_what_does_not_happen_in_time_is_named(tmp_path: Path) -> None:
    process = Process("server", ["sh", "-c", "echo starting; exec sleep 60"], tmp_path / "log")
    try:
        with pytest.raises(RealKubeError, match="it is ready: not within 0 s"):
            wait_until(lambda: False, "it is ready", [process], timeout=0.1)
    finally:
        process.kill()


def test_a_stopped_program_is_gone(tmp_path: Path) -> None:
    process = Process("server", ["sleep", "60"], tmp_path / "log")

    process.kill()

    assert not Path("/proc", str(process.pid)).exists()


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_a_command_that_fails_is_quoted_with_what_it_said() -> None:
    with pytest.raises(RealKubeError, match=r"ls /no/such/folder: .*No such file"):
        must_run("ls", "/no/such/folder")
