"""A step of CI ends in time, cannot be weakened from outside, and says what it left out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ci
import steps
from equipment.waiting import eventually_sync
from steps import Lanes, Step

HANGS = """
import os, pathlib, subprocess, sys, time
print("it hangs here", flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
while True:
    try:
        time.sleep(3600)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", source, *arguments]


def lives(process: int) -> bool:
    try:
        state = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # killed, and not yet reaped by whoever adopted it


def test_a_step_that_hangs_is_killed_with_everything_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = tmp_path / "child"

    def not_ended(child: subprocess.Popen[bytes], within: float) -> bool:
        """The time limit is reached, but not before the step has started its child."""
        eventually_sync(lambda: started.exists() and started.read_text(), what="the step hangs")
        return False

    monkeypatch.setattr(steps, "ended", not_ended)
    step = Step("a step", python(HANGS, str(started)))
    outcome = ci.timed(step, dict(os.environ), Lanes(), strict=False)
    assert outcome is not None
    said = capsys.readouterr().out
    assert "killed after its limit" in said
    assert "it hangs here" in said
    child = int(started.read_text())
    eventually_sync(lambda: not lives(child), what="the child of the step is gone")


def test_a_step_ends_with_whoever_runs_it(tmp_path: Path) -> None:
    started = tmp_path / "child"
    runs = "import os, sys, steps; steps.end_with_steps(); steps.run(steps.Step('a step', sys.argv[1:]), os.environ)"
    command = python(runs, *python(HANGS, str(started)))
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(steps.__file__).parent)}) as runner:
        eventually_sync(lambda: started.exists() and started.read_text(), what="the step has started its child")
        runner.terminate()
    child = int(started.read_text())
    eventually_sync(lambda: not lives(child), what="the child of the step is gone")


def test_all_lanes_end_with_whoever_runs_them(tmp_path: Path) -> None:
    started = [tmp_path / "one", tmp_path / "two"]
    never = tmp_path / "never"
    runs = (
        "import os, sys, steps; from functools import partial\n"
        "def lane(*commands): return [partial(lambda c, lanes: steps.run(steps.Step('s', c), os.environ, lanes), c) "
        "for c in commands]\n"
        "steps.end_with_steps(); p, source, one, two, never = sys.argv[1:]\n"
        "touch = [p, '-c', 'import pathlib, sys; pathlib.Path(sys.argv[1]).touch()', never]\n"
        "steps.Lanes().run([lane([p, '-c', source, one], touch), lane([p, '-c', source, two], touch)])"
    )
    command = python(runs, sys.executable, HANGS, *map(str, started), str(never))
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(steps.__file__).parent)}) as runner:
        for each in started:
            eventually_sync(lambda: each.exists() and each.read_text(), what="the step has started its child")  # noqa: B023
        runner.terminate()
    assert runner.returncode == 128 + signal.SIGTERM
    for each in started:
        eventually_sync(lambda: not lives(int(each.read_text())), what="the child of the step is gone")  # noqa: B023
    assert not never.exists(), "a step began after the end"


def test_every_stage_has_its_place() -> None:
    assert sorted(stage for group in ci.GROUPS for lane in group for stage in lane) == sorted(ci.STAGES)


def test_the_environment_cannot_weaken_a_strict_run() -> None:
    given = {
        "GPU_RUNTIME_TEST_KUBECONFIG": "file",
        "GPU_RUNTIME_KILLS": "1",
        "HYPOTHESIS_PROFILE": "quick",
        "KUBEBUILDER_ASSETS": "folder",
        "KUBECONFIG": "file",
        "PYTEST_ADDOPTS": "-k nothing",
        "PYTEST_TIMEOUT": "0",
        "PYTHONOPTIMIZE": "1",
        "PYTHONPATH": "folder",
        "PYTHONWARNINGS": "ignore",
    }
    kept = {"HOME": "/home/someone", "PATH": "/usr/bin", "XDG_CACHE_HOME": "/cache", "PYTHONUNBUFFERED": "1"}
    assert steps.cleared({**given, **kept}) == kept
    assert steps.weakening({**given, **kept}) == sorted(given)


@pytest.mark.parametrize("line", ["3 steps were left out for want of a kubectl: a, b", "1 test was left out: no root"])
def test_what_is_left_out_is_told_and_is_red_in_a_strict_run(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    step = Step("a step", python(f"print({line!r})"))
    assert ci.timed(step, dict(os.environ), Lanes(), strict=False) is None
    assert line in capsys.readouterr().out
    assert ci.timed(step, dict(os.environ), Lanes(), strict=True) is not None
    assert "FAIL" in capsys.readouterr().out


def test_every_step_of_ci_has_a_time_limit() -> None:
    assert all(0 < step.minutes <= 60 for stage in ci.STAGES.values() for step in stage)


def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("timeout")) > 0
