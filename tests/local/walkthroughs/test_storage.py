"""Data outlives the unit that wrote it, grows while it is in use, and goes with its storage alone."""

from __future__ import annotations

from pathlib import Path

from equipment.waiting import eventually_sync
from local.up.units import insist, page, until_ready
from local.walkthroughs.site import OURS, Document, Site, ready_condition
from local.walkthroughs.test_walkthroughs import until_ready_stock

NAMESPACE = "runtime-instance"
STORAGE = f"{OURS}/namespaces/{NAMESPACE}/gpustorages/model-cache"
UNIT = f"{OURS}/namespaces/{NAMESPACE}/gpuunits/demo-instance"
CLAIM = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/model-cache"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/demo-instance"
VOLUMES = "/api/v1/persistentvolumes"
MOUNT = {"name": "model-cache", "mountPath": "/workspace/cache"}
WRITE_AND_SERVE = "echo kept > /workspace/cache/weights && exec python -m http.server 8080 --directory /workspace/cache"
SERVE = "exec python -m http.server 8080 --directory /workspace/cache"


def test_data_stays_when_its_unit_goes_and_goes_with_its_storage(site: Site) -> None:
    steps = site.walkthrough("storage.sh")
    assert steps.curl("seed stock first").status == 202
    created = steps.curl("create storage")
    assert created.status == 201
    assert created.json["data"]["phase"] == "Pending"
    storage = site.until_phase(STORAGE, "Ready")
    check_claim(site, storage, "20Gi")
    until_ready_stock(site, 1)
    inspected = steps.step("inspect the storage object and the PVC")
    assert inspected is None or inspected.text.count("model-cache") > 3

    mounted = steps.curl("create an active runtime with that storage mounted")
    assert mounted.status == 201
    assert mounted.json["data"]["storageMounts"] == [MOUNT]
    check_mount(site, site.until_phase(UNIT, "Ready"))

    resized = steps.curl("resize the storage later")
    assert resized.status == 200
    assert resized.json["data"]["size"] == "40Gi"
    check_claim(site, until_capacity(site, "40Gi"), "40Gi")
    for step, words in (("check the storage resource", "capacity: 40Gi"), ("check the runtime object", "claimName: ")):
        shown = steps.step(step)
        assert shown is None or words in shown.text

    refused = steps.curl("check the delete behavior")
    assert refused.status == 409
    assert "storage_in_use" in refused.text
    assert "demo-instance" in refused.text
    steps.finished()
    check_data(site)


def check_claim(site: Site, storage: Document, size: str) -> None:
    """The claim has the storage's name and no owner but the storage's annotations, and is as large as it says."""
    claim = site.must_get(CLAIM)
    assert storage["status"]["claimName"] == claim["metadata"]["name"] == "model-cache"
    assert storage["status"]["capacity"] == claim["status"]["capacity"]["storage"] == size
    assert claim["spec"]["resources"]["requests"]["storage"] == size
    assert claim["spec"]["storageClassName"] == "rook-ceph-block"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert "ownerReferences" not in claim["metadata"], "the garbage collector deletes no data"


def check_mount(site: Site, unit: Document) -> None:
    """The unit says where, and its Deployment mounts the claim there."""
    assert unit["spec"]["storageMounts"] == [MOUNT]
    assert ready_condition(unit)["reason"] == "UnitReady"
    pod = site.must_get(DEPLOYMENT)["spec"]["template"]["spec"]
    paths = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    claims = {paths[each["name"]]: each.get("persistentVolumeClaim") for each in pod["volumes"]}
    assert claims["/workspace/cache"] == {"claimName": "model-cache"}
    held = insist(site.up, "GET", f"/gpu-storages/model-cache?namespace={NAMESPACE}", good=(200,))["data"]["attachedTo"]
    assert held["unit"] == "demo-instance"


def until_capacity(site: Site, size: str) -> Document:
    def probe() -> Document:
        storage = site.must_get(STORAGE)
        assert storage["status"].get("capacity") == size, storage["status"]
        assert ready_condition(storage)["reason"] == "StorageReady", storage["status"]
        return storage

    return eventually_sync(probe, what=f"the storage has {size}")


def check_data(site: Site) -> None:
    """What the unit writes is there for the next one, and gone after the storage."""
    change = {"template": template(WRITE_AND_SERVE)}
    insist(site.up, "PUT", f"/gpu-units/demo-instance?namespace={NAMESPACE}", change, good=(200,))
    check_file(site, "demo-instance")
    delete_unit(site, "demo-instance")
    assert site.must_get(STORAGE)["status"]["phase"] == "Ready"
    create_successor(site)
    check_file(site, "successor")
    delete_unit(site, "successor")
    delete_storage(site)


def check_file(site: Site, unit: str) -> None:
    def found() -> bool:
        return page(f"{until_ready(site.up, unit)['accessURL']}weights") == "kept\n"

    assert not site.runs_programs() or eventually_sync(found, what=f"unit {unit} serves the file")


def delete_unit(site: Site, name: str) -> None:
    """Deletes the unit, and waits until the storage is free."""
    insist(site.up, "DELETE", f"/gpu-units/{name}?namespace={NAMESPACE}", good=(200, 202, 204))

    def free() -> bool:
        view = insist(site.up, "GET", f"/gpu-storages/model-cache?namespace={NAMESPACE}", good=(200,))["data"]
        assert "attachedTo" not in view, view
        return True

    eventually_sync(free, within=120, what="nobody holds the storage")


def create_successor(site: Site) -> None:
    stock = {"operationID": "stock-g1-demo-002", "specName": "g1.1", "gpu": 1, "replicas": 1}
    insist(site.up, "POST", "/operator/stock-units", {**stock, "memory": site.shell.memory}, good=(202,))
    unit = {
        "operationID": "unit-demo-002",
        "name": "successor",
        "namespace": NAMESPACE,
        "specName": "g1.1",
        "image": "python:3.12",
        "template": template(SERVE),
        "storageMounts": [MOUNT],
    }
    insist(site.up, "POST", "/gpu-units", unit, good=(201,))  # as soon as there is stock


def delete_storage(site: Site) -> None:
    """Deletes the storage, and waits until claim, volume and files are gone."""
    volume = f"{VOLUMES}/{site.must_get(CLAIM)['spec']['volumeName']}"
    folder = site.must_get(volume)["spec"].get("hostPath", {}).get("path")  # where volumes are folders of this machine
    assert folder is None or Path(folder).exists()
    insist(site.up, "DELETE", f"/gpu-storages/model-cache?namespace={NAMESPACE}", good=(200, 202, 204))
    for path in (STORAGE, CLAIM, volume):
        eventually_sync(lambda path=path: site.get(path) is None, what=f"{path} is gone")  # type: ignore[misc]
    assert folder is None or not Path(folder).exists()


def template(script: str) -> Document:
    return {"command": ["sh", "-c", script], "ports": [{"name": "http", "port": 8080}]}
