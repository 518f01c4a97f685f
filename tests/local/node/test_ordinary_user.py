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
from equipment.privileges import needs_root
from local.node import as_ordinary_user, ordinary_agent
from local.node.as_ordinary_user import Order
from local.node.machine import processes

USER = 29_461
pytestmark = needs_root("only root can become another user")


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gpu-runtime-user-", dir="/var/tmp"))
    shutil.chown(path, USER, USER)
    yield path
    assert processes(path) == []
    shutil.rmtree(path)


def run_as_user(home: Path, *options: str) -> Any:
    agent, prefix = Path(ordinary_agent.__file__).resolve(), Path(sys.base_prefix).resolve()
    sources = [Path(str(module.__file__)).resolve().parent.parent for module in (gpu_runtime, msgspec)]
    data = home / "data"
    data.mkdir()
    shutil.chown(data, USER, USER)
    order = Order(
        user=USER,
        # Root's own interpreter and checkout often lie in root's home.
        shown=[str(each) for each in (prefix, *sources, agent.parent)],
        command=[f"{prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}", str(agent), *options, str(data)],
        environment={
            "PATH": os.defpath, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, sources)), "DATA_DIR": str(home),
        },
    )  # fmt: skip
    ended = subprocess.run(
        [sys.executable, as_ordinary_user.__file__, msgspec.json.encode(order).decode()],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def assert_entered(seen: Any, user: str) -> None:
    """A person has run commands in the first pod, with and without a terminal, and reached its port."""
    (said, code), (shown, shown_code) = seen["plain"], seen["terminal"]
    assert [said, code] == [[user, "first", "not", "a", "tty"], 3]
    assert [shown[:2], shown[2].startswith("/dev/pts/"), shown_code] == [[user, "first"], True, 3]
    assert seen["port"] == "first"


def test_with_user_namespaces_pods_are_isolated_and_reached_by_their_declared_ports(home: Path) -> None:
    answer = run_as_user(home)
    assert answer["root"] in ("overlay", "bind")
    assert "cannot call out" in answer["said"][-1]
    assert answer["first"]["page"] == "first"
    assert answer["second"]["page"] == "second"
    assert answer["first"]["gpus"] == {"main": ["0"]}
    assert_entered(answer["entered"], "0")
    assert (answer["writer"]["exitCode"], answer["volume"]) == (4, ["file"])
    assert answer["stopped"]["exitCode"] == 143
    assert answer["left"] == []


def test_without_them_pods_are_plain_processes_whose_failures_are_honest(home: Path) -> None:
    answer = run_as_user(home, "--without-user-namespaces")
    assert answer["root"] == "machine"
    assert "pods are plain processes that see all of this user" in answer["said"][-1]
    assert answer["first"]["page"] == "first"
    assert_entered(answer["entered"], str(USER))
    # The port is taken by the first pod.
    assert answer["second"]["exitCode"] == 1
    assert answer["writer"]["reason"] == "StartError"
    assert (
        'failed to mount at "/workspace/cache": this machine allows no mount namespaces' in answer["writer"]["message"]
    )
    assert answer["stopped"]["exitCode"] == 143
    assert answer["left"] == []
