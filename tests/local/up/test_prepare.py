"""Volumes are filled by pods that run here: from an image, and from another storage."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from equipment.installation import Up
from equipment.privileges import needs_root
from equipment.waiting import eventually_sync
from local.up.units import insist, page, seed, until_ready
from realkube.api import Access
from unit.files.trees import big_tree, describe

STORAGES = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpustorages"
NONCE = "runtime.lokiwager.io/storage-recovery-nonce"
HOLDER = "runtime.lokiwager.io/attached-to"
PATIENCE = 120.0
FILES = 10_000


@pytest.fixture(scope="module")
def kubernetes(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Access:
    return up.kubernetes(tmp_path_factory.mktemp("access"))


def create(kubernetes: Access, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUStorage",
        "metadata": {"name": name},
        "spec": {"size": "1Gi", **spec},
    }
    made = kubernetes.request("POST", STORAGES, body)
    assert made.status == 201, made


def until(kubernetes: Access, name: str, phase: str) -> Any:
    """The status of the storage's prepare, once the storage is in the phase for what was asked for last."""

    def probe() -> Any:
        status = kubernetes.request("GET", f"{STORAGES}/{name}").body.get("status", {})
        assert status.get("phase") == phase, status
        return status

    return eventually_sync(probe, within=PATIENCE, what=f"storage {name} is {phase}")["prepare"]


def recover(kubernetes: Access, name: str) -> None:
    """Asks for another attempt, and waits until the status is about it."""

    def digest() -> str:
        return str(kubernetes.request("GET", f"{STORAGES}/{name}").body["status"]["prepare"]["observedDigest"])

    before, patch = digest(), {"metadata": {"annotations": {NONCE: "once more"}}}
    asked = kubernetes.request("PATCH", f"{STORAGES}/{name}", patch, "application/merge-patch+json")
    assert asked.status == 200, asked
    eventually_sync(lambda: digest() != before, within=PATIENCE, what="the recovery begins")


def volume(kubernetes: Access, name: str) -> Path:
    """The folder on this machine that holds the data of the storage."""

    def bound() -> str:
        claim = kubernetes.request("GET", f"/api/v1/namespaces/runtime-instance/persistentvolumeclaims/{name}").body
        return str(claim.get("spec", {}).get("volumeName", ""))

    place = eventually_sync(bound, within=PATIENCE, what=f"claim {name} has a volume")
    found = kubernetes.request("GET", f"/api/v1/persistentvolumes/{place}").body["spec"]
    return Path(found["hostPath"]["path"])


def kill_the_copy_into(target: Path) -> None:
    """SIGKILL of the process that copies, once it has copied something."""

    def copied() -> bool:
        return any(names for _, _, names in os.walk(target))

    eventually_sync(copied, within=PATIENCE, what="the copy has begun")
    killed = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _copies(each)]
    assert killed, "the copy ended before it was killed"
    for process in killed:
        os.kill(process, signal.SIGKILL)


def _copies(process: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[-3:-1] == [b"/source", b"/target"] and b"copy" in words


@needs_root("the files of a volume belong to many users")
def test_a_copy_that_is_killed_is_not_ready_and_a_recovery_makes_it_whole(kubernetes: Access) -> None:
    create(kubernetes, "source")
    until(kubernetes, "source", "Ready")
    big_tree(volume(kubernetes, "source"), FILES)
    original = describe(volume(kubernetes, "source"))
    create(kubernetes, "copied", prepare={"fromStorageName": "source"})
    kill_the_copy_into(volume(kubernetes, "copied"))

    failed = until(kubernetes, "copied", "Failed")
    assert failed["message"].startswith("container prepare exited with code 137")
    assert (failed["phase"], failed["recoveryPhase"]) == ("Failed", "Required")
    assert not kubernetes.request("GET", f"{STORAGES}/copied").body["status"].get("mountable")

    recover(kubernetes, "copied")
    done = until(kubernetes, "copied", "Ready")
    assert (done["phase"], done["recoveryPhase"]) == ("Succeeded", "Succeeded")
    assert done["filesCopied"] == done["filesTotal"] == FILES
    assert done["bytesCopied"] == done["bytesTotal"] > 0
    assert describe(volume(kubernetes, "copied")) == original

    def freed() -> bool:
        return HOLDER not in kubernetes.request("GET", f"{STORAGES}/source").body["metadata"].get("annotations", {})

    eventually_sync(freed, within=PATIENCE, what="the source is free again")


def test_an_image_fills_a_volume_that_waits_for_its_first_consumer(kubernetes: Access) -> None:
    script = "import pathlib; pathlib.Path('/workspace/model').write_text('weights')"
    create(
        kubernetes,
        "from-image",
        storageClassName="local",
        prepare={"fromImage": "python:3.12", "command": ["python", "-c", script]},
    )
    until(kubernetes, "from-image", "Ready")
    assert (volume(kubernetes, "from-image") / "model").read_text() == "weights"


def test_a_failing_image_shows_its_exit_code_and_its_last_line(kubernetes: Access) -> None:
    script = "echo downloading; echo the mirror is away >&2; exit 3"
    create(kubernetes, "failing", prepare={"fromImage": "busybox:1.36", "command": ["sh", "-c", script]})
    failed = until(kubernetes, "failing", "Failed")
    assert failed["message"] == "container prepare exited with code 3: the mirror is away"
    (volume(kubernetes, "failing") / "half").write_text("x")
    recover(kubernetes, "failing")

    def emptied() -> bool:
        return not (volume(kubernetes, "failing") / "half").exists()

    eventually_sync(emptied, within=PATIENCE, what="the recovery empties the volume")
    assert until(kubernetes, "failing", "Failed")["recoveryPhase"] == "Required"


def test_a_unit_waits_for_a_copy_and_then_sees_its_files(up: Up, kubernetes: Access) -> None:
    script = "import time, pathlib; time.sleep(3); pathlib.Path('/workspace/model').write_text('weights')"
    create(kubernetes, "slow", prepare={"fromImage": "python:3.12", "command": ["python", "-c", script]})
    create(kubernetes, "seen", prepare={"fromStorageName": "slow"})
    seed(up, "stock-for-a-copy")
    body = {
        "operationID": "reads-a-copy",
        "name": "reader",
        "specName": "g1.1",
        "image": "python:3.12",
        "storageMounts": [{"name": "seen", "mountPath": "/data"}],
        "template": {
            "command": ["python"],
            "args": ["-m", "http.server", "8080", "--directory", "/data"],
            "ports": [{"name": "http", "port": 8080}],
        },
    }
    insist(up, "POST", "/gpu-units", body, good=(200, 201))

    def waits() -> bool:
        return bool(up.call("GET", "/gpu-units/reader")[1]["data"].get("reason") == "StorageNotReady")

    eventually_sync(waits, within=PATIENCE, what="the unit says that it waits for its storage")
    assert page(until_ready(up, "reader")["accessURL"] + "model") == "weights"
