"""What an ordinary user gets, with and without user namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gpu_runtime
from local.node import ordinary_agent
from local.node.machine import processes

USER = 29_461


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gpu-runtime-user-", dir="/var/tmp"))
    shutil.chown(path, USER, USER)
    yield path
    assert processes(path) == []
    shutil.rmtree(path)


def interpreter() -> str:
    """One that the user may execute: root's own often lies in root's home."""
    for path in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        tried = ["sh", "-c", f'exec "{path}" -c "import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"']
        if path and subprocess.run(tried, user=USER, group=USER, extra_groups=[], check=False).returncode == 0:
            return path
    raise AssertionError("no interpreter on this machine that an ordinary user may execute")


def run_as_user(home: Path, *options: str) -> Any:
    sources = [Path(str(module.__file__)).parent.parent for module in (gpu_runtime, msgspec)]
    environment = {
        "PATH": os.defpath, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(map(str, sources)), "DATA_DIR": str(home),
    }  # fmt: skip
    data = home / "data"
    data.mkdir()
    shutil.chown(data, USER, USER)
    agent = subprocess.run(
        [interpreter(), ordinary_agent.__file__, *options, str(data)],
        user=USER, group=USER, extra_groups=[], env=environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert agent.returncode == 0, agent.stderr
    return json.loads(agent.stdout)


def test_with_user_namespaces_pods_are_isolated_and_reached_by_their_declared_ports(home: Path) -> None:
    answer = run_as_user(home)
    assert answer["root"] in ("overlay", "bind")
    assert "cannot call out" in answer["said"][-1]
    assert answer["first"]["page"] == "first"
    assert answer["second"]["page"] == "second"
    assert answer["first"]["gpus"] == {"main": ["0"]}
    assert (answer["writer"]["exitCode"], answer["volume"]) == (4, ["file"])
    assert answer["stopped"]["exitCode"] == 143
    assert answer["left"] == []


def test_without_them_pods_are_plain_processes_whose_failures_are_honest(home: Path) -> None:
    answer = run_as_user(home, "--without-user-namespaces")
    assert answer["root"] == "machine"
    assert "pods are plain processes that see all of this user" in answer["said"][-1]
    assert answer["first"]["page"] == "first"
    # The port is taken by the first pod.
    assert answer["second"]["exitCode"] == 1
    assert answer["writer"]["reason"] == "StartError"
    assert (
        'failed to mount at "/workspace/cache": this machine allows no mount namespaces' in answer["writer"]["message"]
    )
    assert answer["stopped"]["exitCode"] == 143
    assert answer["left"] == []
