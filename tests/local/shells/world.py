"""The pods that the scenarios are told about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipment.servers import ApiServer, fresh_namespace
from equipment.waiting import eventually_sync
from local.shells.person import Person

IMAGE = "python:3.12"
SLEEP = ["python3", "-c", "import time; time.sleep(36000)"]
MODEST = {
    "runAsUser": 1234,
    "runAsGroup": 2345,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def container(name: str = "main", command: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "command": command or SLEEP, **more}


def pod(name: str, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"containers": containers or [container()], "terminationGracePeriodSeconds": 0, "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**spec, **more}}


PODS = [
    pod("box"),
    pod("two", container(), container("ended", ["sh", "-c", "exit 3"])),
    pod("waiting", nodeSelector={"no": "such"}),
    pod(
        "modest",
        container(workingDir="/tmp", env=[{"name": "GREETING", "value": "hello"}], securityContext=MODEST),
    ),
]


@contextmanager
def somebody(server: ApiServer, program: Path) -> Iterator[Person]:
    """A person with running pods."""
    with fresh_namespace(server, "shells") as namespace:
        path = f"/api/v1/namespaces/{namespace}/pods"
        for each in PODS:
            answer = server.request("POST", path, each)
            assert answer.status == 201, answer

        def running() -> bool:
            found = {one["metadata"]["name"]: one["status"] for one in server.request("GET", path).body["items"]}
            states = found["two"].get("containerStatuses") or []
            ended = any("terminated" in one["state"] for one in states)
            return ended and all(found[name]["phase"] == "Running" for name in ("box", "two", "modest"))

        eventually_sync(running, within=120, what="the pods run")
        yield Person(server, program, namespace)
