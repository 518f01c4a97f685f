"""The files of a storage, read through the proxy of a whole installation."""

from __future__ import annotations

import io
import json
import re
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from equipment.installation import Up
from equipment.privileges import needs_root
from equipment.waiting import eventually_sync
from local.up.units import insist, page, seed, until_ready
from realkube.api import Access

NAMESPACE = "runtime-instance"
GROUP = "runtime.lokiwager.io"
STORAGES = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/gpustorages"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WRITER = """
set -e
mkdir -p /data/models
echo weights > /data/models/weights.txt
echo private > /data/private
chmod 600 /data/private
chown 1234:1234 /data/private
ln -s /etc/passwd /data/out
ln -s models/weights.txt /data/in
"""


@pytest.fixture
def kubernetes(up: Up, tmp_path: Path) -> Access:
    return up.kubernetes(tmp_path)


def made(kubernetes: Access, path: str, document: dict[str, Any]) -> None:
    answer = kubernetes.request("POST", path, document)
    assert answer.status == 201, answer.body


def accessor(kubernetes: Access, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Status and condition of the accessor."""
    status = kubernetes.request("GET", f"{STORAGES}/{name}").body.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    return status.get("accessor", {}), conditions.get("AccessorReady", {})


def until(kubernetes: Access, name: str, reason: str) -> dict[str, Any]:
    """The accessor's status once its condition has this reason."""

    def probe() -> dict[str, Any]:
        status, condition = accessor(kubernetes, name)
        assert condition.get("reason") == reason, condition
        return {**status, "message": condition["message"]}

    return eventually_sync(probe, within=120, what=f"the accessor of {name} is {reason}")


def mount(up: Up, unit: str, storage: str) -> None:
    """A unit that holds the storage and serves its files itself."""
    body = {
        "operationID": f"create-{unit}",
        "name": unit,
        "specName": "g1.1",
        "image": "python:3.12",
        "template": {
            "command": ["python", "-m", "http.server", "8080", "--directory", "/data"],
            "ports": [{"name": "http", "port": 8080}],
        },
        "storageMounts": [{"name": storage, "mountPath": "/data"}],
    }
    insist(up, "POST", "/gpu-units", body, good=(200, 201))


def fetch(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def run_to_its_end(kubernetes: Access, name: str, claim: str, script: str) -> None:
    """A pod that runs the script with the claim at /data."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "any", "command": ["sh", "-c", script], "volumeMounts": mounts}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    made(kubernetes, PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def succeeded() -> bool:
        phase = kubernetes.request("GET", f"{PODS}/{name}").body["status"].get("phase")
        assert phase != "Failed"
        return bool(phase == "Succeeded")

    eventually_sync(succeeded, within=120, what=f"{name} has ended")
    kubernetes.request("DELETE", f"{PODS}/{name}")


def accessor_pods(kubernetes: Access, name: str) -> list[str]:
    query = f"{PODS}?labelSelector={GROUP}%2Fstorage-accessor%3D{name}"
    return [pod["metadata"]["name"] for pod in kubernetes.request("GET", query).body["items"]]


@needs_root("a pod of an ordinary user has one user: it cannot give files to another")
def test_files_are_served_while_nobody_holds_the_storage(up: Up, kubernetes: Access) -> None:
    spec = {"size": "1Gi", "accessor": {"enabled": True}}
    storage = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "GPUStorage", "metadata": {"name": "shelf"}, "spec": spec}
    made(kubernetes, STORAGES, storage)
    url = until(kubernetes, "shelf", "StorageAccessorReady")["accessURL"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/storages/runtime-instance/shelf/", url)
    run_to_its_end(kubernetes, "writer", "shelf", WRITER)

    status, listed = fetch(f"{url}?format=json")
    assert status == 200, listed
    names = {entry["name"]: entry["type"] for entry in json.loads(listed)["entries"]}
    assert names == {"models": "folder", "private": "file", "out": "link", "in": "link"}
    assert b'href="./models/"' in fetch(url)[1]
    assert fetch(f"{url}models/weights.txt", Range="bytes=0-2") == (206, b"wei")
    assert fetch(f"{url}in") == (200, b"weights\n")
    assert fetch(f"{url}private") == (200, b"private\n"), "files of every user can be read"
    assert fetch(f"{url}out")[0] == 403
    with tarfile.open(fileobj=io.BytesIO(fetch(f"{url}?archive=tar")[1])) as tar:
        assert set(tar.getnames()) == {"shelf", *(f"shelf/{name}" for name in (*names, "models/weights.txt"))}

    seed(up, "for-a-reader")
    mount(up, "reader", "shelf")
    assert "weights.txt" in page(until_ready(up, "reader")["accessURL"] + "models/")
    assert "unit reader holds the storage" in until(kubernetes, "shelf", "StorageAccessorYielded")["message"]
    assert accessor_pods(kubernetes, "shelf") == [], "the accessor's pod goes first"
    status, said = fetch(url)
    assert status == 503
    assert b"not served while unit reader holds it" in said

    insist(up, "DELETE", "/gpu-units/reader", good=(200, 202, 204, 404))
    until(kubernetes, "shelf", "StorageAccessorReady")
    assert fetch(f"{url}models/weights.txt") == (200, b"weights\n")

    assert kubernetes.request("DELETE", f"{STORAGES}/shelf").status == 200
    eventually_sync(
        lambda: kubernetes.request("GET", f"{STORAGES}/shelf").status == 404, within=120, what="the storage is gone"
    )
    assert accessor_pods(kubernetes, "shelf") == []
    assert fetch(url)[0] == 404
