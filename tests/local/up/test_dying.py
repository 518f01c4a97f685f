from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

from equipment.installation import Up
from equipment.waiting import eventually_sync
from gpu_runtime.cmd.processes import PROCESSES
from local.up.traces import pods_of, traces_of
from local.up.units import create, page, seed, until_ready

KILLS = 10
PROGRAMS = ("broker", "local-cluster", *(name for name, process in PROCESSES.items() if process.up is not None))


def test_any_process_may_be_killed_while_units_are_created(up: Up, tmp_path: Path) -> None:
    seed(up, "first", KILLS // 2 + 1)
    create(up, "bystander")
    until_ready(up, "bystander")
    before = pod_of(up, tmp_path, "bystander")
    names = []
    for number, name in zip(range(KILLS), itertools.cycle(PROGRAMS)):
        kill(up, name)
        if number % 2 == 0:
            names.append(f"unit-{number}")
            create(up, names[-1])
    for name in names:
        assert "Directory listing for /" in page(until_ready(up, name)["accessURL"])
    up.until_healthy()
    restarts = sum(each.record.restarts for each in up.status().processes)
    assert restarts >= KILLS  # more where the machine is so busy that a process is silent too long
    after = pod_of(up, tmp_path, "bystander")
    assert after == before, "a pod that ran all along was restarted or replaced"
    assert "died: killed by SIGKILL; starting it again in" in up.said


def test_processes_of_a_killed_supervisor_are_taken_over_by_the_next(own_up: Up) -> None:
    own_up.start()
    before = pids(own_up)
    own_up.kill()
    orphaned = own_up.command("status")
    assert orphaned.returncode == 1
    assert "the supervisor is gone" in orphaned.stderr
    own_up.start()
    assert pids(own_up) == before
    assert own_up.said.count("adopted") == len(PROGRAMS)
    kill(own_up, "proxy")
    eventually_sync(lambda: own_up.status().healthy and pids(own_up) != before, what="the adopted proxy was restarted")
    assert own_up.stop() == 0
    assert traces_of(own_up.data_dir) == []


def test_what_a_killed_supervisor_left_can_be_ended(own_up: Up) -> None:
    own_up.start()
    own_up.kill()
    ended = own_up.command("down")
    assert ended.returncode == 0, ended
    assert [line.split()[1] for line in ended.stdout.splitlines()][-2:] == ["local-cluster", "broker"]
    assert traces_of(own_up.data_dir) == []
    assert own_up.command("status").returncode == 3


def test_what_a_killed_supervisor_and_a_killed_cluster_left_can_be_ended(own_up: Up) -> None:
    own_up.start()
    seed(own_up, "first", 1)
    create(own_up, "running")
    until_ready(own_up, "running")
    cluster = pids(own_up)["local-cluster"]
    own_up.kill()
    os.kill(cluster, signal.SIGKILL)
    assert pods_of(own_up.data_dir)
    ended = own_up.command("down")
    assert ended.returncode == 0, ended
    assert "pods left behind stopped" in ended.stdout
    assert traces_of(own_up.data_dir) == []
    again = own_up.command("down")
    assert (again.returncode, "nothing runs on" in again.stdout) == (0, True)


def kill(up: Up, name: str) -> None:
    """Ends the process of this name as it runs now, once it does."""

    def running() -> int:
        for each in up.status().processes:
            if each.record.name == name and each.state != "dead":
                return each.record.identity.pid
        return 0

    os.kill(eventually_sync(running, what=f"{name} runs"), signal.SIGKILL)


def pids(up: Up) -> dict[str, int]:
    return {each.record.name: each.record.identity.pid for each in up.status().processes}


def pod_of(up: Up, folder: Path, unit: str) -> list[tuple[str, Any]]:
    """The unit's pods, with how often their containers were started again."""

    def ask() -> list[tuple[str, Any]]:
        try:
            answer = up.kubernetes(folder).request("GET", "/api/v1/namespaces/runtime-instance/pods")
        except OSError as error:
            raise AssertionError(str(error)) from error
        assert answer.status == 200
        return [
            (pod["metadata"]["uid"], [each["restartCount"] for each in pod["status"].get("containerStatuses", [])])
            for pod in answer.body["items"]
            if pod["metadata"]["name"].startswith(f"{unit}-")
        ]

    return eventually_sync(ask, what=f"pods of {unit}")
