"""Units and the storages that they mount, on a whole installation: one unit at a time, and data that stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipment.installation import Up
from equipment.waiting import eventually_sync
from local.up.units import PATIENCE, create, insist, page, seed, until_ready
from realkube.api import Access

NAMESPACE = "runtime-instance"
STORAGES = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{NAMESPACE}/gpustorages"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
SERVE = "exec python -m http.server 8080 --directory /data"
WRITE = "echo kept > /data/file"


@pytest.fixture
def kubernetes(up: Up, tmp_path: Path) -> Access:
    return up.kubernetes(tmp_path)


def new_storage(up: Up, name: str) -> None:
    insist(up, "POST", "/gpu-storages", {"name": name, "size": "1Gi"}, good=(200, 201))


def mounts(storage: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": storage, "mountPath": "/data", **fields}]


def a_template(script: str) -> dict[str, Any]:
    return {"command": ["sh", "-c", script], "ports": [{"name": "http", "port": 8080}]}


def a_unit(name: str, storage: str, script: str = SERVE, **mount: Any) -> dict[str, Any]:
    return {
        "operationID": f"create-{name}",
        "name": name,
        "specName": "g1.1",
        "image": "python:3.12",
        "template": a_template(script),
        "storageMounts": mounts(storage, **mount),
    }


def mount(up: Up, name: str, storage: str, script: str = SERVE, **fields: Any) -> None:
    """A unit of its own stock that mounts the storage at /data and serves what is there."""
    seed(up, f"stock-for-{name}")
    insist(up, "POST", "/gpu-units", a_unit(name, storage, script, **fields), good=(200, 201))


def until_serves(up: Up, unit: str, path: str, content: str) -> None:
    def served() -> bool:
        assert page(f"{until_ready(up, unit)['accessURL']}{path}") == content
        return True

    eventually_sync(served, within=PATIENCE, what=f"unit {unit} serves {path}")


def delete_unit(up: Up, name: str) -> None:
    insist(up, "DELETE", f"/gpu-units/{name}", good=(200, 202, 204, 404))


def storage_view(up: Up, name: str) -> dict[str, Any]:
    view: dict[str, Any] = insist(up, "GET", f"/gpu-storages/{name}", good=(200,))["data"]
    return view


def until_held_by(up: Up, storage: str, unit: str) -> None:
    """Waits for a holder; "" for none."""

    def held() -> bool:
        assert storage_view(up, storage).get("attachedTo", {}).get("unit", "") == unit
        return True

    eventually_sync(held, within=PATIENCE, what=f"storage {storage} is held by {unit or 'nobody'}")


def test_a_storage_that_is_deleted_with_kubectl_stays_until_its_unit_is_gone(up: Up, kubernetes: Access) -> None:
    new_storage(up, "wanted")
    mount(up, "keeper", "wanted", f"{WRITE}; {SERVE}")
    until_serves(up, "keeper", "file", "kept\n")
    assert kubernetes.request("DELETE", f"{STORAGES}/wanted").status == 200

    def said() -> bool:
        view = storage_view(up, "wanted")
        assert (view["reason"], "deletingSince" in view) == ("StorageDeleting", True), view
        assert "waiting until unit keeper no longer holds it" in view["message"]
        return True

    eventually_sync(said, within=PATIENCE, what="the storage says what its deletion waits for")
    claim = kubernetes.request("GET", f"{CLAIMS}/wanted").body
    assert "deletionTimestamp" not in claim["metadata"]
    change = {"template": a_template(SERVE)}  # another pod of the unit finds the data
    insist(up, "PUT", "/gpu-units/keeper", change, good=(200,))
    until_serves(up, "keeper", "file", "kept\n")
    delete_unit(up, "keeper")
    for path in (f"{STORAGES}/wanted", f"{CLAIMS}/wanted"):
        eventually_sync(
            lambda path=path: kubernetes.request("GET", path).status == 404,  # type: ignore[misc]
            within=PATIENCE,
            what=f"{path} is gone",
        )


def test_a_unit_gets_a_storage_by_put_when_another_gave_it_up_by_put(up: Up) -> None:
    new_storage(up, "passed-on")
    seed(up, "two-for-a-storage", 2)
    create(up, "first")
    create(up, "second")
    until_ready(up, "first")
    attach = {"storageMounts": mounts("passed-on"), "template": a_template(f"{WRITE}; {SERVE}")}
    insist(up, "PUT", "/gpu-units/first", attach, good=(200,))
    until_serves(up, "first", "file", "kept\n")

    attach = {"storageMounts": mounts("passed-on"), "template": a_template(SERVE)}
    status, refused = up.call("PUT", "/gpu-units/second", attach)
    assert (status, refused["error"]["code"]) == (409, "storage_in_use")
    assert "unit first" in refused["error"]["message"]
    assert "Directory listing for /" in page(until_ready(up, "second")["accessURL"]), "the refused change did nothing"

    insist(up, "PUT", "/gpu-units/first", {"storageMounts": []}, good=(200,))
    until_held_by(up, "passed-on", "")
    insist(up, "PUT", "/gpu-units/second", attach, good=(200,))
    until_serves(up, "second", "file", "kept\n")
    until_held_by(up, "passed-on", "second")
    for name in ("first", "second"):
        delete_unit(up, name)


def test_a_storage_that_is_mounted_read_only_cannot_be_written(up: Up) -> None:
    new_storage(up, "library")
    mount(up, "author", "library", f"{WRITE}; {SERVE}")
    until_serves(up, "author", "file", "kept\n")
    delete_unit(up, "author")
    until_held_by(up, "library", "")
    tries = "mkdir /out; cp /data/file /out; (echo changed > /data/file || echo refused > /out/answer)"
    mount(up, "reader", "library", f"{tries}; exec python -m http.server 8080 --directory /out", readOnly=True)
    until_serves(up, "reader", "answer", "refused\n")
    until_serves(up, "reader", "file", "kept\n")
    delete_unit(up, "reader")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_unit_that_wants_a_storage_in_use_is_refused_and_its_stock_stays_free(up: Up, read_only: bool) -> None:
    word = "readers" if read_only else "writers"
    new_storage(up, word)
    mount(up, f"holder-of-{word}", word)
    until_held_by(up, word, f"holder-of-{word}")
    seed(up, f"stock-beside-{word}")
    free = eventually_sync(lambda: free_stock(up), within=PATIENCE, what="stock is ready")

    status, refused = up.call("POST", "/gpu-units", a_unit(f"late-for-{word}", word, readOnly=read_only))
    assert (status, refused["error"]["code"]) == (409, "storage_in_use")
    assert f"in use by unit holder-of-{word}" in refused["error"]["message"]
    assert up.call("GET", f"/gpu-units/late-for-{word}")[0] == 404
    assert free_stock(up) == free

    delete_unit(up, f"holder-of-{word}")
    until_held_by(up, word, "")
    insist(up, "POST", "/gpu-units", a_unit(f"late-for-{word}", word, readOnly=read_only), good=(201,))
    until_ready(up, f"late-for-{word}")
    delete_unit(up, f"late-for-{word}")


def free_stock(up: Up) -> list[str]:
    """Names of the stock units that a request can have now."""
    listed = insist(up, "GET", "/operator/stock-units", good=(200,))["data"]
    return sorted(each["name"] for each in listed if each.get("phase") == "Ready" and not each.get("claimed"))


def test_data_and_mounts_are_there_again_after_a_restart(own_up: Up) -> None:
    own_up.start()
    new_storage(own_up, "lasting")
    new_storage(own_up, "unused")
    mount(own_up, "resident", "lasting", f"echo started >> /data/file; {SERVE}")
    until_serves(own_up, "resident", "file", "started\n")
    assert own_up.stop() == 0
    own_up.start()
    until_serves(own_up, "resident", "file", "started\nstarted\n")
    until_held_by(own_up, "lasting", "resident")
    assert [storage_view(own_up, name)["phase"] for name in ("lasting", "unused")] == ["Ready", "Ready"]
