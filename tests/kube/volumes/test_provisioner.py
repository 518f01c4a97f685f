"""The external provisioner and resizer beside the volume controller of a cluster."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from pathlib import Path
from typing import Any

from equipment.mutation import mutant
from equipment.servers import ApiServer
from equipment.waiting import eventually
from kube.volumes.conftest import Provisioning

MERGE = "application/merge-patch+json"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PROVISIONER = "gpu-runtime/local-directory"
SOURCE = "local/controllers/volumes/provisioner.py"
Document = dict[str, Any]


class Claims:
    """One claim `data` of the namespace, and its volume."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self._path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"

    def create(self, storage_class: str = "rook-ceph-block", **spec: Any) -> None:
        asked = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": asked, "storageClassName": storage_class, **spec}
        made = self._server.request("POST", self._path, {"metadata": {"name": "data"}, "spec": spec})
        assert made.status == HTTPStatus.CREATED, made.body

    def get(self) -> Document:
        return dict(self._server.request("GET", f"{self._path}/data").body)

    def patch(self, body: Document) -> None:
        answer = self._server.request("PATCH", f"{self._path}/data", body, MERGE)
        assert answer.status == HTTPStatus.OK, answer.body

    def resize(self, size: str) -> None:
        self.patch({"spec": {"resources": {"requests": {"storage": size}}}})

    def delete(self) -> None:
        assert self._server.request("DELETE", f"{self._path}/data").status == HTTPStatus.OK

    async def bound(self) -> str:
        """Waits until the claim is bound, and returns the name of its volume."""
        await eventually(lambda: self.get()["status"]["phase"] == "Bound", what="the claim is bound")
        return str(self.get()["spec"]["volumeName"])

    async def grown(self, size: str) -> None:
        await eventually(lambda: self.get()["status"]["capacity"] == {"storage": size}, what="the claim has grown")
        assert "conditions" not in self.get()["status"]


def storage_class(server: ApiServer, **fields: Any) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    made = server.request("POST", CLASSES, {"metadata": {"name": name}, "provisioner": PROVISIONER, **fields})
    assert made.status == HTTPStatus.CREATED, made.body
    return name


def volume_of(server: ApiServer, name: str) -> Document | None:
    answer = server.request("GET", f"{VOLUMES}/{name}")
    return dict(answer.body) if answer.status == HTTPStatus.OK else None


@mutant(SOURCE, "            if volume.metadata.deletionTimestamp is None:", "            if True:")
async def test_a_folder_is_made_with_its_volume_and_goes_with_the_claim(
    api_server: ApiServer, namespace: str, folder: Path, provisioning: Provisioning
) -> None:
    claims = Claims(api_server, namespace)
    async with provisioning():
        claims.create()
        name = await claims.bound()
        (folder / name / "file").write_text("kept")
        claims.delete()
        await eventually(lambda: volume_of(api_server, name) is None, what="the volume is gone")
    assert not (folder / name).exists()


@mutant(SOURCE, "_is_ours(volume) and deletes and", "_is_ours(volume) and")
async def test_a_volume_that_its_class_retains_keeps_its_folder(
    api_server: ApiServer, namespace: str, folder: Path, provisioning: Provisioning
) -> None:
    claims = Claims(api_server, namespace)
    async with provisioning():
        claims.create(storage_class(api_server, reclaimPolicy="Retain"))
        name = await claims.bound()
        claims.delete()
        await eventually(
            lambda: (volume_of(api_server, name) or {})["status"]["phase"] == "Released", what="the volume is released"
        )
        # A second claim comes and goes: the provisioner has had time for both.
        claims.create()
        other = await claims.bound()
        claims.delete()
        await eventually(lambda: volume_of(api_server, other) is None, what="the other volume is gone")
    assert (folder / name).is_dir()
    assert volume_of(api_server, name) is not None
    patch = {"metadata": {"finalizers": None}}
    api_server.request("DELETE", f"{VOLUMES}/{name}")
    api_server.request("PATCH", f"{VOLUMES}/{name}", patch, MERGE)


@mutant(
    SOURCE,
    "Path(volume.spec.hostPath.path) == self._folder / key.name:\n"
    "                await asyncio.to_thread(remove_folder, self._folder / key.name)",
    "True:\n                await asyncio.to_thread(remove_folder, Path(volume.spec.hostPath.path))",
)
async def test_a_folder_of_somebody_else_is_never_removed(
    api_server: ApiServer, namespace: str, tmp_path: Path, provisioning: Provisioning
) -> None:
    """A volume may say that it was provisioned here and name any place of the machine."""
    precious = tmp_path / "precious"
    precious.mkdir()
    name = f"pvc-{uuid.uuid4()}"
    gone = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": "gone", "uid": str(uuid.uuid4())}
    volume = {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "rook-ceph-block",
            "hostPath": {"path": str(precious)},
            "claimRef": {"apiVersion": "v1", **gone},
        },
    }
    async with provisioning():
        assert api_server.request("POST", VOLUMES, volume).status == HTTPStatus.CREATED
        await eventually(lambda: volume_of(api_server, name) is None, what="the volume is gone")
    assert precious.is_dir()


@mutant(SOURCE, "            if claim.wants_more(volume.spec.capacity):", "            if False:")
async def test_a_claim_that_was_growing_when_the_provisioner_died_grows_with_the_next(
    api_server: ApiServer, namespace: str, provisioning: Provisioning
) -> None:
    claims = Claims(api_server, namespace)
    async with provisioning():
        claims.create()
        name = await claims.bound()
    claims.resize("2Gi")
    api_server.request("PATCH", f"{VOLUMES}/{name}", {"spec": {"capacity": {"storage": "2Gi"}}}, MERGE)
    async with provisioning():
        await claims.grown("2Gi")
        claims.resize("3Gi")
        await claims.grown("3Gi")
    assert (volume_of(api_server, name) or {})["spec"]["capacity"] == {"storage": "3Gi"}


@mutant(SOURCE, "return placed and asked", "return asked")
async def test_a_late_class_gets_its_volume_when_a_node_is_chosen(
    api_server: ApiServer, namespace: str, folder: Path, provisioning: Provisioning
) -> None:
    claims = Claims(api_server, namespace)
    async with provisioning():
        claims.create("local")
        first = claims.get()["metadata"]["uid"]
        # Asked for, but no node is chosen any more: the scheduler took its choice back.
        notes: dict[str, str] = {"volume.kubernetes.io/storage-provisioner": PROVISIONER}
        claims.patch({"metadata": {"annotations": notes}})
        claims_elsewhere = Claims(api_server, "default")
        claims_elsewhere.create()
        other = await claims_elsewhere.bound()
        claims_elsewhere.delete()
        await eventually(lambda: volume_of(api_server, other) is None, what="the other volume is gone")
        assert not (folder / f"pvc-{first}").exists()
        claims.patch({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "some-node"}}})
        assert await claims.bound() == f"pvc-{first}"


async def test_a_claim_for_a_device_is_refused(
    api_server: ApiServer, namespace: str, provisioning: Provisioning
) -> None:
    claims = Claims(api_server, namespace)
    async with provisioning():
        claims.create(volumeMode="Block")

        def said() -> bool:
            events = api_server.request("GET", f"/api/v1/namespaces/{namespace}/events").body["items"]
            return any("does not support block volume provisioning" in one["message"] for one in events)

        await eventually(said, what="ProvisioningFailed")
    assert claims.get()["status"]["phase"] == "Pending"
