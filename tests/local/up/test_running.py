from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipment.installation import Up
from equipment.waiting import eventually_sync
from equipment.walkthrough import Shell
from gpu_runtime.cmd.processes import PROCESSES
from local.up.units import create, insist, page, seed, until_ready

PROGRAMS = ["broker", "local-cluster", *sorted(name for name, process in PROCESSES.items() if process.up is not None)]
DEPLOYMENT = "/apis/apps/v1/namespaces/runtime-instance/deployments/steady"


def test_each_process_has_its_line_and_then_comes_what_a_person_needs(up: Up) -> None:
    lines = up.said.splitlines()
    ready = [match[1] for line in lines if (match := re.match(r"  ✓ (\S+) +ready in [\d.]+ s", line))]
    assert sorted(ready) == sorted(PROGRAMS)
    assert f"  API      {up.url}/api/v1" in lines
    assert f"  Swagger  {up.url}/swagger/index.html" in lines
    assert f"  export KUBECONFIG={up.kubeconfig}" in lines
    assert any(line.startswith("  GPUs: ") for line in lines)
    assert "\x1b[" not in up.said  # no colours where nobody watches


def test_the_first_command_works_when_it_is_pasted(up: Up, tmp_path: Path) -> None:
    (command,) = re.findall(r"^  (curl -s -X POST .*)$", up.said, re.MULTILINE)
    pasted = Shell(up.url, up.kubeconfig, tmp_path).run(command)
    assert pasted.json["data"]["operationID"] == "first-stock"


def test_the_documentation_opens(up: Up) -> None:
    with urllib.request.urlopen(f"{up.url}/swagger/index.html", timeout=30) as answer:
        assert "swagger" in answer.read().decode().lower()


def test_status_shows_every_process(up: Up) -> None:
    up.until_healthy()
    shown = up.command("status", "-o", "json")
    assert shown.returncode == 0, shown
    rows = json.loads(shown.stdout)
    names = [row["name"] for row in rows]
    assert (names[:2], sorted(names)) == (PROGRAMS[:2], sorted(PROGRAMS)), "in the order of their start"
    assert {row["state"] for row in rows} == {"ready"}
    assert all(Path(f"/proc/{row['pid']}").exists() for row in rows)
    assert up.command("status").stdout.splitlines()[0].split() == [
        *("NAME", "STATE", "PID", "PORT", "RESTARTS", "UPTIME", "PROBLEM")
    ]


def test_env_is_what_a_shell_evaluates(up: Up) -> None:
    script = 'eval "$0" && echo "$KUBECONFIG" && echo "$GPU_RUNTIME_URL"'
    said = subprocess.run(["bash", "-c", script, up.command("env").stdout], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [str(up.kubeconfig), up.url]


def test_a_second_up_is_refused_and_told_who_is_there(up: Up) -> None:
    second = up.command("up")
    assert second.returncode == 3
    assert up.process is not None
    assert f"in use by another `gpu-runtime up`: process {up.process.pid}, since " in second.stderr
    up.until_healthy()


def test_a_taken_port_is_named_before_anything_starts(up: Up, tmp_path: Path) -> None:
    other = Up(tmp_path / "other", port=up.port).command("up", "--port", str(up.port))
    assert other.returncode == 2
    assert f"port {up.port} of 127.0.0.1 is in use" in other.stderr


def test_a_unit_opens_at_its_access_url(up: Up) -> None:
    seed(up, "for-browsing")
    create(up, "browsed")
    url = until_ready(up, "browsed")["accessURL"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/units/runtime-instance/browsed/", url)
    assert "Directory listing for /" in page(url)


def test_drift_is_repaired_while_the_api_stands_still(up: Up, tmp_path: Path) -> None:
    seed(up, "for-drift")
    create(up, "steady")
    until_ready(up, "steady")
    kubernetes = up.kubernetes(tmp_path)
    before = kubernetes.request("GET", DEPLOYMENT).body["metadata"]["uid"]
    with standing_still(up, "runtime-api"):
        assert kubernetes.request("DELETE", DEPLOYMENT).status == 200

        def made_again() -> bool:
            answer = kubernetes.request("GET", DEPLOYMENT)
            return answer.status == 200 and answer.body["metadata"]["uid"] != before

        eventually_sync(made_again, what="the Deployment was made again")
    until_ready(up, "steady")


def test_the_api_answers_and_creates_while_the_controllers_stand_still(up: Up) -> None:
    pool = {"operationID": "without-controllers", "name": "waiting", "specName": "g1.1", "replicas": 1}
    with standing_still(up, "controller-manager"):
        assert up.call("GET", "/health")[0] == 200
        insist(up, "POST", "/operator/stockpools", pool, good=(200, 202))
        view = insist(up, "GET", "/operator/stockpools/waiting", good=(200,))["data"]
        assert view["phase"] == "Pending"

    def ready() -> bool:
        return bool(up.call("GET", "/operator/stockpools/waiting")[1]["data"].get("phase") == "Ready")

    eventually_sync(ready, what="the pool is ready once the controllers go on")


@contextmanager
def standing_still(up: Up, name: str) -> Iterator[None]:
    """The process does nothing inside the block, and is not dead either."""
    pid = next(each.record.identity.pid for each in up.status().processes if each.record.name == name)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_everything_listens_on_loopback_alone(up: Up) -> None:
    for each in up.status().processes:
        port = int((each.record.address or each.record.health).rsplit(":", 1)[1].split("/")[0])
        # 127.0.0.2 is this machine as well: who listens on all of its addresses answers there.
        for address, answers in (("127.0.0.1", True), ("127.0.0.2", False)):
            with socket.socket() as attempt:
                attempt.settimeout(30)
                assert (attempt.connect_ex((address, port)) == 0) is answers, (each.record.name, address, port)
