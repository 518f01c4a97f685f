"""What one reconcile of a storage does for the pod that serves its files, by what it finds."""

from __future__ import annotations

import os
from typing import Any

import pytest
import yaml

from equipment.builders import a_storage, a_unit, an_operation
from equipment.builders.base import Builder, new_document
from equipment.memory_api import refused
from equipment.mutation import mutant
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.annotations import STORAGE_FINALIZER
from gpu_runtime.api.v1alpha1.labels import MANAGED_BY, MANAGER, STORAGE_ACCESSOR
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.config.controller_manager import NetworkSettings, SpecSettings, TolerationSettings
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES, SERVICES
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.gpustorage.resources import accessor
from gpu_runtime.controllers.gpustorage.resources.claim import new_claim
from gpu_runtime.controllers.labels import CONTROLLED_BY, REVISION
from gpu_runtime.kube import Forbidden
from gpu_runtime.kube.client import document_of
from unit.controllers.children import TESTDATA
from unit.controllers.table import SETTINGS, Row, World, available, check
from unit.controllers.test_gpustorage_prepare import CLAIM as COPY_CLAIM
from unit.controllers.test_gpustorage_prepare import COPIED, COPY_JOB, SOURCE, TARGET, held, named
from unit.controllers.test_gpustorage_table import CLASS

PLAIN = a_storage("data").with_uid("storage-uid").at_generation(1).size("20Gi").kept_by(STORAGE_FINALIZER)
PLAIN = PLAIN.status(
    phase="Ready",
    claimName="data",
    capacity="20Gi",
    mountable=True,
    prepare={"phase": "NotRequested"},
    observedGeneration=1,
)
PLAIN = PLAIN.condition("Ready", "True", "StorageReady", "its volume can be mounted")
PLAIN = PLAIN.condition("Prepared", "True", "StoragePrepareNotRequested", "the volume begins empty")
OFF = PLAIN.status(accessor={"phase": "Disabled"})
OFF = OFF.condition("AccessorReady", "False", "StorageAccessorDisabled", "not asked for")

NAME = accessor.accessor_key(PLAIN.object()).name
ADDRESS = {"serviceName": NAME, "accessURL": "/storages/runtime-instance/data/"}
ON = PLAIN.spec(accessor={"enabled": True})
SERVED = ON.status(accessor={"phase": "Ready", **ADDRESS})
SERVED = SERVED.condition("AccessorReady", "True", "StorageAccessorReady", "its files are served for reading")
UNIT = a_unit("demo").with_uid("unit-uid").mounting("data")
HOLDER = UNIT, an_operation("op").with_uid("op-uid")
HELD = SERVED.attached_to(*HOLDER)


def a_class(mode: str = "Immediate") -> Builder:
    document = new_document("storage.k8s.io/v1", "StorageClass", "rook-ceph-block")
    return Builder({**document, "provisioner": "rbd.csi.ceph.com", "volumeBindingMode": mode})


CLAIM = Builder(document_of(CLAIMS, new_claim(PLAIN.object(), Quantity.parse("20Gi"), SETTINGS))).with_uid("claim-uid")
BOUND = CLAIM.spec(volumeName="pv-1").status(phase="Bound", capacity={"storage": "20Gi"})
VOLUME = (BOUND, a_class())

DEPLOYMENT = Builder(document_of(DEPLOYMENTS, accessor.deployment(ON.object(), "data", SETTINGS)))
DEPLOYMENT = DEPLOYMENT.with_uid("deployment-uid").at_generation(1).annotated({REVISION: "1"})
SERVICE = Builder(document_of(SERVICES, accessor.service(ON.object())))
POLICY = Builder(document_of(NETWORK_POLICIES, accessor.network_policy(ON.object(), SETTINGS)))
MADE = (DEPLOYMENT, SERVICE, POLICY)
RUNNING = (available(DEPLOYMENT), SERVICE, POLICY)
ORPHANED = available(DEPLOYMENT).metadata(ownerReferences=[])
FOREIGN = Builder(new_document("apps/v1", "Deployment", NAME, "runtime-instance")).with_uid("foreign-uid")
FOREIGN = FOREIGN.labelled({MANAGED_BY: MANAGER}).spec(selector={}, template={})


def replica_set() -> Builder:
    made = Builder(new_document("apps/v1", "ReplicaSet", f"{NAME}-1", "runtime-instance")).with_uid("rs-uid")
    return made.annotated({REVISION: "1"}).controlled_by(DEPLOYMENT).labelled(_pod_labels())


def a_pod(**status: Any) -> Builder:
    made = Builder(new_document("v1", "Pod", f"{NAME}-1-x", "runtime-instance")).controlled_by(replica_set())
    return made.labelled(_pod_labels()).spec(nodeName="n1").status(**status)


def _pod_labels() -> dict[str, str]:
    return {MANAGED_BY: MANAGER, CONTROLLED_BY: "storage-uid", STORAGE_ACCESSOR: "data"}


STARTING = DEPLOYMENT.status(observedGeneration=1, replicas=1)
CRASH = {"containerStatuses": [{"name": "files", "state": {"terminated": {"exitCode": 2, "message": "no folder"}}}]}
READY = ("Ready", "StorageReady")
STATUS = "status GPUStorage data"

ROWS: dict[str, tuple[Row, str, str]] = {
    "a storage whose accessor is not asked for has none": (Row([OFF, *VOLUME]), "StorageAccessorDisabled", ""),
    "an accessor gets its policy before its pod": (
        Row(
            [ON, *VOLUME],
            [f"create NetworkPolicy {NAME}", f"create Service {NAME}", f"create Deployment {NAME}", STATUS],
            *READY,
            status={"accessor": {"phase": "Pending", **ADDRESS}},
        ),
        *("StorageAccessorPending", "its pod is being created"),
    ),
    "an accessor whose pod runs is Ready, with its address": (
        Row([ON, *VOLUME, *RUNNING], [STATUS], *READY, status={"accessor": {"phase": "Ready", **ADDRESS}}),
        *("StorageAccessorReady", "its files are served for reading"),
    ),
    "an accessor that is served causes no write": (Row([SERVED, *VOLUME, *RUNNING]), "StorageAccessorReady", ""),
    "an accessor whose pod fails says why, and the storage stays Ready": (
        Row(
            [ON, *VOLUME, STARTING, SERVICE, POLICY, replica_set(), a_pod(**CRASH)],
            [STATUS],
            *READY,
            status={"accessor": {"phase": "Failed", **ADDRESS}},
        ),
        *("StorageAccessorFailed", "exited with code 2: no folder"),
    ),
    "an accessor ends as soon as somebody holds the storage": (
        Row(
            [HELD, UNIT, *VOLUME, *RUNNING],
            [f"delete Deployment {NAME}", STATUS],
            *READY,
            status={"accessor": {"phase": "Pending", **ADDRESS}},
        ),
        *("StorageAccessorPending", "its pod is ending, because unit demo gets the volume"),
    ),
    "an accessor has not yielded while its pod ends": (
        Row([HELD, UNIT, *VOLUME, SERVICE, POLICY, a_pod().being_deleted()], [STATUS], *READY),
        *("StorageAccessorPending", "its pod is ending, because unit demo gets the volume"),
    ),
    "an accessor whose pod is gone has yielded, and names the holder": (
        Row(
            [HELD, UNIT, *VOLUME, SERVICE, POLICY],
            [STATUS],
            *READY,
            status={"accessor": {"phase": "Pending", **ADDRESS}},
        ),
        *("StorageAccessorYielded", "unit demo holds the storage; its files are served again when it is free"),
    ),
    "an accessor that was made late for a held storage goes again": (
        Row(
            [
                SERVED.condition("AccessorReady", "False", "StorageAccessorYielded", "x").attached_to(*HOLDER),
                UNIT,
                *VOLUME,
                *RUNNING,
            ],
            [f"delete Deployment {NAME}", STATUS],
            *READY,
        ),
        *("StorageAccessorYielded", "unit demo"),
    ),
    "an accessor is not made while somebody holds the storage": (
        Row([ON.attached_to(*HOLDER), UNIT, *VOLUME], [STATUS], *READY),
        *("StorageAccessorYielded", "unit demo"),
    ),
    "an accessor comes back when the storage is free": (
        Row(
            [
                SERVED.condition("AccessorReady", "False", "StorageAccessorYielded", "unit demo holds the storage"),
                *VOLUME,
                SERVICE,
                POLICY,
            ],
            [f"create Deployment {NAME}", STATUS],
            *READY,
        ),
        *("StorageAccessorPending", ""),
    ),
    "an accessor that is switched off goes with everything": (
        Row(
            [SERVED.spec(accessor={"enabled": False}), *VOLUME, *RUNNING],
            [f"delete Deployment {NAME}", f"delete Service {NAME}", f"delete NetworkPolicy {NAME}", STATUS],
            *READY,
            status={"accessor": {"phase": "Disabled"}},
        ),
        *("StorageAccessorDisabled", ""),
    ),
    "an accessor is never the first consumer of a volume": (
        Row(
            [ON, CLAIM.status(phase="Pending"), a_class("WaitForFirstConsumer")],
            [STATUS],
            "Pending",
            "StorageAwaitingConsumer",
        ),
        *("StorageAccessorPending", "its volume has no files yet"),
    ),
    "an accessor ends when the claim is lost": (
        Row(
            [SERVED, BOUND.status(phase="Lost"), a_class(), *RUNNING],
            [f"delete Deployment {NAME}", STATUS],
            *("Failed", "StorageClaimLost"),
            events=["Warning StorageClaimLost"],
        ),
        *("StorageAccessorPending", "its volume has no files yet"),
    ),
    "a foreign Deployment of the accessor's name is left alone, and the storage stays Ready": (
        Row([ON, *VOLUME, FOREIGN, SERVICE, POLICY], [STATUS], *READY, again=15.0),
        *("NameConflict", "exists and is not ours"),
    ),
    "a refused accessor says why and is tried again, and the storage stays Ready": (
        Row(
            [ON, *VOLUME, SERVICE, POLICY],
            [f"create Deployment {NAME}", STATUS],
            *READY,
            again=15.0,
            failures={f"create Deployment {NAME}": refused(Forbidden, 403, "exceeded quota")},
        ),
        *("StorageAccessorFailed", "exceeded quota"),
    ),
    "a changed Deployment is put back": (
        Row(
            [SERVED, *VOLUME, available(DEPLOYMENT).spec(replicas=3), SERVICE, POLICY],
            [f"patch Deployment {NAME}", STATUS],
            *READY,
        ),
        *("StorageAccessorPending", ""),
    ),
    "a deleted storage ends its accessor first": (
        Row(
            [SERVED.being_deleted(), *VOLUME, *RUNNING],
            [f"delete Deployment {NAME}", STATUS],
            "Pending",
            "StorageDeleting",
            again=15.0,
        ),
        *("StorageAccessorReady", ""),
    ),
    "a deleted storage ends an accessor that `kubectl delete --cascade=orphan` took from it": (
        Row(
            [SERVED.being_deleted(), *VOLUME, ORPHANED, SERVICE, POLICY],
            [f"delete Deployment {NAME}", STATUS],
            "Pending",
            "StorageDeleting",
            again=15.0,
        ),
        *("StorageAccessorReady", ""),
    ),
    "a held storage ends an accessor that was taken from it": (
        Row([HELD, UNIT, *VOLUME, ORPHANED, SERVICE, POLICY], [f"delete Deployment {NAME}", STATUS], *READY),
        *("StorageAccessorPending", "its pod is ending, because unit demo gets the volume"),
    ),
    "a deleted storage leaves a foreign Deployment of the accessor's name alone": (
        Row([SERVED.being_deleted(), *VOLUME, FOREIGN, a_pod()], [STATUS], "Pending", "StorageDeleting", again=15.0),
        *("StorageAccessorReady", ""),
    ),
    "a deleted storage waits for the accessor's pod": (
        Row(
            [SERVED.being_deleted(), *VOLUME, a_pod().being_deleted()],
            [STATUS],
            "Pending",
            "StorageDeleting",
            again=15.0,
        ),
        *("StorageAccessorReady", ""),
    ),
    "a deleted storage waits for a ReplicaSet that may still make a pod": (
        Row([SERVED.being_deleted(), *VOLUME, replica_set()], [STATUS], "Pending", "StorageDeleting", again=15.0),
        *("StorageAccessorReady", ""),
    ),
}


@pytest.mark.parametrize(("row", "reason", "says"), ROWS.values(), ids=ROWS)
@mutant("controllers/gpustorage/accessor.py", "if claim is None or not claim.is_bound:", "if claim is None:")
@mutant("controllers/gpustorage/accessor.py", "return orphaned or is_controlled_by(", "return is_controlled_by(")
async def test_reconcile(row: Row, reason: str, says: str) -> None:
    await check("gpustorage", "GPUStorage", row)
    world = World(row)
    await world.reconcile("gpustorage", row.key)
    found = world.api.find("GPUStorage", "data")
    assert found is not None
    condition = {each["type"]: each for each in found["status"]["conditions"]}["AccessorReady"]
    if row.writes and row.phase is not None:
        assert condition["reason"] == reason
        assert says in condition["message"]


def test_the_children_of_an_accessor_are_these() -> None:
    toleration = TolerationSettings(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
    settings = ControllerManagerSettings(
        network=NetworkSettings(proxyCIDRs=("192.0.2.7/32",)),
        specs={"g1.1": SpecSettings(tolerations=[toleration]), "g1.2": SpecSettings(tolerations=[toleration])},
    )
    storage = ON.object()
    made = [
        document_of(NETWORK_POLICIES, accessor.network_policy(storage, settings)),
        document_of(SERVICES, accessor.service(storage)),
        document_of(DEPLOYMENTS, accessor.deployment(storage, "data", settings)),
    ]
    shown = yaml.safe_dump_all(made, sort_keys=False, width=120)
    path = TESTDATA / "storage-accessor.out.yaml"
    if os.environ.get("GPU_RUNTIME_UPDATE_GOLDEN"):
        path.write_text(shown)
    assert shown == path.read_text()


def test_a_storage_and_a_unit_of_the_same_name_have_different_children() -> None:
    assert NAME != "data"
    again = PLAIN.with_uid("another-uid").object()
    assert accessor.accessor_key(again).name != NAME
    assert accessor.selector(again) != accessor.selector(PLAIN.object())


@pytest.mark.parametrize(
    ("reason", "replicas"),
    [
        ("StorageAccessorReady", 0),
        ("StorageAccessorPending", 0),
        ("StorageAccessorFailed", 0),
        ("StorageAccessorYielded", 1),
        ("StorageAccessorDisabled", 1),
    ],
)
@mutant("controllers/gpuunit/storage_gate.py", "if not is_out_of_the_way(storage):", "if False:")
async def test_the_pod_of_a_unit_waits_until_the_accessor_has_yielded(reason: str, replicas: int) -> None:
    unit = UNIT.at_generation(1)
    world = World(Row([unit, HELD.condition("AccessorReady", "False", reason, "")]))
    for _ in range(3):  # the Deployment is made before it mounts anything
        await world.reconcile("gpuunit", Row([unit]).key)
        world.api.fill(world.manager)
    made = world.api.find("Deployment", "demo")
    assert made is not None
    assert made["spec"].get("replicas", 1) == replicas


SERVING = SOURCE.condition("AccessorReady", "True", "StorageAccessorReady", "")
YIELDED = SOURCE.condition("AccessorReady", "False", "StorageAccessorYielded", "")
COPY_ROWS: dict[str, Row] = {
    "a copy holds its source and then waits for the accessor's pod": Row(
        [named(COPIED), COPY_CLAIM, CLASS, SERVING, COPY_JOB],
        ["patch GPUStorage source", STATUS],
        *("Pending", "StoragePreparePending", "the pod that serves the files of storage source is ending"),
    ),
    "a copy that waits for the accessor's pod writes nothing more to its source": Row(
        [named(COPIED), COPY_CLAIM, CLASS, held(SERVING, TARGET), COPY_JOB],
        [STATUS],
        *("Pending", "StoragePreparePending", "the pod that serves the files of storage source is ending"),
    ),
    "a copy begins when the accessor of its source has yielded": Row(
        [named(COPIED), COPY_CLAIM, CLASS, held(YIELDED, TARGET), COPY_JOB],
        ["patch GPUStorage source", f"patch Job {COPY_JOB.name}", STATUS],
        *("Pending", "StoragePreparePending"),
        again=None,
    ),
}


@pytest.mark.parametrize("row", COPY_ROWS.values(), ids=COPY_ROWS)
async def test_a_copy_waits_for_the_accessor_of_its_source(row: Row) -> None:
    await check("gpustorage", "GPUStorage", row)
