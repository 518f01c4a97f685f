"""What `kubectl get` prints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_runtime.local.apiserver.builtin import data
from gpu_runtime.local.apiserver.table.builtin import CELLS
from gpu_runtime.local.apiserver.table.durations import human
from gpu_runtime.local.apiserver.table.jsonpath import find, steps
from gpu_runtime.local.apiserver.table.pods import pod_cells

NOW = datetime(2026, 1, 1, tzinfo=UTC)

DURATIONS = {
    0: "0s",
    119: "119s",
    120: "2m",
    190: "3m10s",
    600: "10m",
    3 * 3600 + 60: "3h1m",
    9 * 3600: "9h",
    50 * 3600: "2d2h",
    9 * 86400: "9d",
    800 * 86400: "2y70d",
    -5: "<invalid>",
}


@pytest.mark.parametrize(("seconds", "want"), DURATIONS.items())
def test_durations_have_two_units_at_most(seconds: int, want: str) -> None:
    assert human(seconds) == want


def pod(status: dict[str, Any], **meta: Any) -> dict[str, Any]:
    metadata = {"name": "p", "creationTimestamp": "2025-12-31T23:59:00Z", **meta}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": status}


def container(ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "c", "ready": ready, "restartCount": restarts, "state": state}]}


STATES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pending": (pod({"phase": "Pending"}), ["0/1", "Pending", "0"]),
    "running": (pod({"phase": "Running", **container(ready=True, running={})}), ["1/1", "Running", "0"]),
    "waiting": (
        pod({"phase": "Pending", **container(waiting={"reason": "ErrImagePull"})}),
        ["0/1", "ErrImagePull", "0"],
    ),
    "crashed": (
        pod({"phase": "Running", **container(restarts=3, terminated={"exitCode": 7})}),
        ["0/1", "ExitCode:7", "3"],
    ),
    "done": (
        pod({"phase": "Succeeded", **container(terminated={"exitCode": 0, "reason": "Completed"})}),
        ["0/1", "Completed", "0"],
    ),
    "ending": (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z"), ["0/1", "Terminating", "0"]),
}


@pytest.mark.parametrize(("found", "want"), STATES.values(), ids=STATES)
def test_a_pod_says_how_far_it_is(found: dict[str, Any], want: list[str]) -> None:
    assert pod_cells(found, NOW)[1:4] == want


def test_every_built_in_kind_has_cells_for_its_columns() -> None:
    plurals = {key.rsplit("/", 1)[1] for key in data()["columns"]}
    assert plurals == {resource.split(".")[0] for resource in CELLS}
    found = pod({"phase": "Pending"})
    assert len(pod_cells(found, NOW)) == len(data()["columns"]["api/v1/pods"])


PATHS = {
    ".spec.size": [3],
    ".spec.list[1]": ["b"],
    ".spec.list[*]": ["a", "b"],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".metadata.labels['a/b']": ["c"],
    ".metadata.labels.x\\.y": ["z"],
    ".absent.deep": [],
}


@pytest.mark.parametrize(("path", "want"), PATHS.items())
def test_columns_are_read_by_path(path: str, want: list[Any]) -> None:
    document = {
        "metadata": {"labels": {"a/b": "c", "x.y": "z"}},
        "spec": {"size": 3, "list": ["a", "b"]},
        "status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]},
    }
    assert find(document, path) == want


def test_a_path_that_we_do_not_read_is_known() -> None:
    assert steps("..deep") is None
