"""What one reconcile of a unit does, by what it finds."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.builders import a_deployment, a_service, a_stock_unit, a_storage, a_unit, an_operation
from equipment.builders.base import Builder
from equipment.memory_api import refused
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, BATCH, OPERATION_UID, SOURCE_STOCK_NODE, STOCK_ORDINAL
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import MANAGED_BY, MANAGER, OPERATION, UNIT
from gpu_runtime.controllers.labels import CONTROLLED_BY, REVISION
from gpu_runtime.kube import Conflict, Forbidden, Terminal
from unit.controllers.table import NOW, Row, World, available, check, children_of

DEMO = a_unit("demo").with_uid("demo-uid").at_generation(1).port(8080)
MADE = children_of(DEMO, GPUUnit)
DEPLOYMENT, SERVICE, POLICY = MADE["Deployment"], MADE["Service"], MADE["NetworkPolicy"]
DEPLOYMENT = DEPLOYMENT.with_uid("deployment-uid").at_generation(1).annotated({REVISION: "1"})
ALL_MADE = (DEPLOYMENT, SERVICE, POLICY)
CREATES = ("create NetworkPolicy demo", "create Service demo", "create Deployment demo")
READY = DEMO.ready("n1").condition("Ready", "True", "UnitReady", "the unit's pod is running and ready")
READY = READY.status(serviceName="demo", accessURL="http://demo.runtime-instance.svc.cluster.local:8080")

STOCK = a_stock_unit("stock-1").with_uid("stock-uid").at_generation(1)
STOCK_DEPLOYMENT = children_of(STOCK, GPUUnit)["Deployment"].with_uid("stock-deployment-uid").at_generation(1)
BY = an_operation("op-1").with_uid("op-uid").choosing(STOCK)
INERT = DEMO.made_by(BY).labelled({OPERATION: BY.name})
ADMITTED = INERT.consuming(STOCK)

SEEDING = an_operation("seed", "CreateStockUnits").with_uid("seed-uid").annotated({BATCH: "runtime-stock/stock"})
SEEDED = STOCK.metadata(name="stock-001").annotated({OPERATION_UID: "seed-uid", STOCK_ORDINAL: "1"})
SEEDED = SEEDED.labelled({OPERATION: SEEDING.name})
SEEDED_DEPLOYMENT = available(children_of(SEEDED, GPUUnit)["Deployment"]).at_generation(1)

MOUNTING = DEMO.mounting("data")
MOUNT_CREATES = ("create Deployment demo", "create NetworkPolicy demo", "create Service demo")
MOUNTED = children_of(MOUNTING, GPUUnit)["Deployment"].with_uid("deployment-uid").at_generation(1)
MOUNTED = available(MOUNTED).annotated({REVISION: "1"})
WITHOUT_PODS = children_of(MOUNTING, GPUUnit)["Deployment"].with_uid("deployment-uid").at_generation(1)
WITHOUT_PODS = WITHOUT_PODS.spec(replicas=0)
DATA = a_storage("data").status(phase="Ready", mountable=True)
HELD = DATA.annotated({ATTACHED_TO: '{"unit":"demo","uid":"demo-uid"}'})
UNFILLED = HELD.status(phase="Pending", mountable=False)
UNFILLED = UNFILLED.condition("Ready", "False", "StoragePrepareRunning", "copied 1 of 2 files")
OTHER = a_unit("other").with_uid("other-uid")


def replica_set(unit: Builder, deployment: Builder) -> Builder:
    made = Builder({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": f"{unit.name}-1"}})
    made = made.in_namespace(_namespace(unit)).with_uid("rs-uid").annotated({REVISION: "1"}).controlled_by(deployment)
    return made.labelled({MANAGED_BY: MANAGER, CONTROLLED_BY: unit.uid})


def a_pod(unit: Builder, deployment: Builder, **status: Any) -> Builder:
    made = Builder({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{unit.name}-1-x"}})
    made = made.in_namespace(_namespace(unit)).controlled_by(replica_set(unit, deployment))
    labels = {MANAGED_BY: MANAGER, CONTROLLED_BY: unit.uid, UNIT: unit.name}
    return made.labelled(labels).spec(nodeName="n1").status(**status)


def running(unit: Builder, **status: Any) -> tuple[Builder, ...]:
    """The ReplicaSet and the pod of a unit."""
    return replica_set(unit, DEPLOYMENT), a_pod(unit, DEPLOYMENT, **status)


def _namespace(unit: Builder) -> str:
    return str(unit.document()["metadata"]["namespace"])


CRASH = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3, "message": "no model"}}}]}
CRASHED = "Pod demo-1-x container c: exited with code 3: no model"
FAILED = READY.failed("PodStartupFailed", CRASHED)
STARTING = DEPLOYMENT.status(observedGeneration=1, replicas=1)

UNIT_ROWS: dict[str, Row] = {
    "a new unit gets its children, and its status can wait": Row([DEMO], CREATES, again=2.0),
    "a new stock unit gets a Deployment alone": Row([STOCK], ["create Deployment stock-1"], again=2.0),
    "a unit whose pod starts says so once its Deployment is 2 s old": Row(
        [DEMO, *ALL_MADE, *running(DEMO)],
        ["status GPUUnit demo"],
        *("Progressing", "UnitProgressing", "its pod is being created"),
    ),
    "a unit whose pod runs is Ready, with node and address": Row(
        [DEMO, available(DEPLOYMENT), SERVICE, POLICY, *running(DEMO)],
        ["status GPUUnit demo"],
        *("Ready", "UnitReady"),
        status={
            "nodeName": "n1",
            "serviceName": "demo",
            "accessURL": "http://demo.runtime-instance.svc.cluster.local:8080",
            "readyReplicas": 1,
        },
    ),
    "a Ready unit causes no write": Row([READY, available(DEPLOYMENT), SERVICE, POLICY, *running(DEMO)]),
    "a Ready unit whose pod is gone is no longer Ready at once": Row(
        [READY, DEPLOYMENT.status(observedGeneration=1, replicas=1), SERVICE, POLICY],
        ["status GPUUnit demo"],
        *("Progressing", "UnitProgressing", "its pod is being created"),
    ),
    "a unit whose program ends is Failed with its last words": Row(
        [READY, DEPLOYMENT.status(observedGeneration=1, replicas=1), SERVICE, POLICY, *running(DEMO, **CRASH)],
        ["status GPUUnit demo"],
        *("Failed", "PodStartupFailed", CRASHED),
        events=[f"Warning PodStartupFailed: {CRASHED}"],
    ),
    "a unit that fails again for the same reason is not reported twice": Row(
        [READY.failed("PodStartupFailed", "earlier words"), STARTING, SERVICE, POLICY, *running(DEMO, **CRASH)],
        ["status GPUUnit demo"],
        *("Failed", "PodStartupFailed", CRASHED),
    ),
    "a unit that recovers says so": Row(
        [FAILED, available(DEPLOYMENT), SERVICE, POLICY, *running(DEMO)],
        ["status GPUUnit demo"],
        *("Ready", "UnitReady"),
        events=["Normal UnitReady"],
    ),
    "a Deployment that somebody scaled is put back": Row(
        [READY, available(DEPLOYMENT.spec(replicas=7)), SERVICE, POLICY, *running(DEMO)],
        ["patch Deployment demo", "status GPUUnit demo"],
        *("Progressing", "UnitProgressing"),
        events=["Normal DriftRepaired: Deployment demo was changed by somebody else and was put back"],
    ),
    "a network policy that somebody deleted is made again": Row(
        [READY, available(DEPLOYMENT), SERVICE, *running(DEMO)],
        ["create NetworkPolicy demo"],
        events=["Normal DriftRepaired: NetworkPolicy demo was missing and was made again"],
    ),
    "the Service of a unit that no longer listens is deleted": Row(
        [READY.spec(template={}), available(DEPLOYMENT), SERVICE, POLICY, *running(DEMO)],
        ["delete Service demo", "status GPUUnit demo"],
        *("Ready", "UnitReady"),
        status={"serviceName": None, "accessURL": None},
    ),
    "a foreign Deployment of the unit's name is left alone": Row(
        [DEMO, a_deployment("demo", "runtime-instance"), SERVICE, POLICY],
        ["create Deployment demo", "status GPUUnit demo"],
        *("Failed", "NameConflict", "Deployment runtime-instance/demo exists and is not ours: it has no owner"),
        events=["Warning NameConflict"],
        again=15.0,
    ),
    "a foreign Service of the unit's name keeps its Deployment from being made": Row(
        [DEMO, a_service("demo", "runtime-instance").spec(ports=[{"port": 80, "targetPort": 80}]), POLICY],
        ["create Service demo", "status GPUUnit demo"],
        *("Failed", "NameConflict", "Service runtime-instance/demo exists and is not ours"),
        events=["Warning NameConflict"],
        again=15.0,
    ),
    "a unit with memory that is no amount waits for its spec to change": Row(
        [DEMO.memory("lots")],
        ["status GPUUnit demo"],
        *("Failed", "InvalidSpec", "spec.memory"),
        events=["Warning InvalidSpec"],
        raises=Terminal,
    ),
    "a unit whose primary port is none of its ports waits for its spec to change": Row(
        [DEMO.spec(access={"primaryPort": "grpc"})],
        ["status GPUUnit demo"],
        *("Failed", "AccessConfigInvalid"),
        events=["Warning AccessConfigInvalid"],
        raises=Terminal,
    ),
    "a mount that no container can have is told before anything is made": Row(
        [DEMO.mounting("data", "/proc/data")],
        ["status GPUUnit demo"],
        *("Failed", "StorageMountInvalid", "spec.storageMounts[0].mountPath"),
        events=["Warning StorageMountInvalid"],
        raises=Terminal,
    ),
    "a unit with a free storage takes it, and gets its pod by a change of its Deployment": Row(
        [MOUNTING, DATA], [*MOUNT_CREATES, "patch GPUStorage data", "patch Deployment demo"], again=2.0
    ),
    "a unit that holds its storage gets its pod without another write to the storage": Row(
        [MOUNTING, HELD], [*MOUNT_CREATES, "patch Deployment demo"], again=2.0
    ),
    "a unit whose spec was changed confirms by a write that it holds its storage": Row(
        [MOUNTING.at_generation(2), HELD],
        [*MOUNT_CREATES, "patch GPUStorage data", "patch Deployment demo"],
        again=2.0,
    ),
    "a unit with a storage that does not exist has a Deployment without pods and waits": Row(
        [MOUNTING], MOUNT_CREATES, again=2.0
    ),
    "a unit that waits for a storage says so once its Deployment is 2 s old": Row(
        [MOUNTING, WITHOUT_PODS, SERVICE, POLICY],
        ["status GPUUnit demo"],
        *("Progressing", "StorageNotReady", "storage data does not exist: create it"),
    ),
    "a unit whose storage belongs to another unit waits and names it": Row(
        [MOUNTING, DATA.attached_to(OTHER, BY), WITHOUT_PODS, SERVICE, POLICY],
        ["status GPUUnit demo"],
        *(
            "Progressing",
            "StorageNotReady",
            "storage data is in use by unit other: one unit can mount it at a time, until its pod has ended",
        ),
    ),
    "a unit does not take a storage that is being deleted": Row(
        [MOUNTING, DATA.being_deleted(), WITHOUT_PODS, SERVICE, POLICY],
        ["status GPUUnit demo"],
        *("Progressing", "StorageNotReady", "storage data is being deleted"),
    ),
    "a unit keeps a storage that is being deleted, and mounts it": Row(
        [MOUNTING, HELD.being_deleted()], [*MOUNT_CREATES, "patch Deployment demo"], again=2.0
    ),
    "a unit whose storage cannot be mounted yet waits in the words of the storage": Row(
        [MOUNTING, UNFILLED, WITHOUT_PODS, SERVICE, POLICY],
        ["status GPUUnit demo"],
        *("Progressing", "StorageNotReady", "storage data is not ready: copied 1 of 2 files"),
    ),
    "a unit that waits for a storage which it holds writes nothing to it: each write would wake it again": Row(
        [MOUNTING.at_generation(2), UNFILLED, WITHOUT_PODS, SERVICE, POLICY],
        ["status GPUUnit demo"],
        *("Progressing", "StorageNotReady", "storage data is not ready: copied 1 of 2 files"),
    ),
    "a record that cannot be read is nobody's": Row(
        [MOUNTING, DATA.annotated({ATTACHED_TO: "{"}), WITHOUT_PODS, SERVICE, POLICY],
        ["status GPUUnit demo"],
        *(
            "Progressing",
            "StorageNotReady",
            "storage data: its annotation runtime.lokiwager.io/attached-to cannot be read",
        ),
    ),
    "a unit that mounts its storage reads and writes nothing for it": Row(
        [MOUNTING.ready("n1").condition("Ready", "True", "UnitReady", ""), MOUNTED, SERVICE, POLICY],
        phase="Ready",
        writes=["status GPUUnit demo"],
        reason="UnitReady",
    ),
    "a refused Deployment is reported and tried again": Row(
        [DEMO, SERVICE, POLICY],
        ["create Deployment demo", "status GPUUnit demo"],
        *("Failed", "UnitDeploymentSyncFailed", "quota"),
        events=["Warning UnitDeploymentSyncFailed: quota"],
        raises=Forbidden,
        failures={"create Deployment demo": refused(Forbidden, 403, "quota")},
    ),
    "a conflict is tried again without a word": Row(
        [READY, available(DEPLOYMENT.spec(replicas=7)), SERVICE, POLICY],
        ["patch Deployment demo"],
        raises=Conflict,
        failures={"patch Deployment demo": refused(Conflict, 409, "newer")},
    ),
    "a unit that is being deleted ends its pod and gets nothing new": Row(
        [DEMO.being_deleted().kept_by("example.org/x"), DEPLOYMENT], ["delete Deployment demo"]
    ),
    "a unit that is deleted with its children orphaned keeps its Deployment": Row(
        [DEMO.being_deleted().kept_by("orphan"), DEPLOYMENT]
    ),
    "a Deployment whose unit is gone is deleted": Row(
        [DEPLOYMENT], ["delete Deployment demo"], gone=Key("runtime-instance", "demo")
    ),
}

HAND_OVER_ROWS: dict[str, Row] = {
    "an inert unit that is new is left to its executor": Row([INERT.metadata(creationTimestamp=NOW), BY], again=2.0),
    "an inert unit of an operation under way waits": Row(
        [INERT, BY],
        ["status GPUUnit demo"],
        *("Progressing", "AwaitingStock", "has not handed over its stock yet"),
        again=2.0,
    ),
    "an inert unit of a committed operation is admitted": Row([INERT, BY.committed()], ["patch GPUUnit demo"]),
    "an inert unit of a failed operation is removed": Row([INERT, BY.failed()], ["delete GPUUnit demo"]),
    "an inert unit whose operation is gone is removed": Row([INERT], ["delete GPUUnit demo"]),
    "an inert unit that names no operation is not built": Row(
        [DEMO.made_by(BY)],
        ["status GPUUnit demo"],
        *("Failed", "InvalidSpec", "no label runtime.lokiwager.io/operation names it"),
        events=["Warning InvalidSpec"],
        raises=Terminal,
    ),
    "an admitted unit waits for its stock to be deleted": Row(
        [ADMITTED, STOCK, STOCK_DEPLOYMENT],
        ["status GPUUnit demo"],
        *("Progressing", "AwaitingStock", "stock unit runtime-stock/stock-1 is not released yet"),
        again=5.0,
    ),
    "a unit with mounts gets its Deployment, without replicas, while the pod of its stock ends": Row(
        [ADMITTED.mounting("data"), STOCK_DEPLOYMENT, a_pod(STOCK, STOCK_DEPLOYMENT)],
        ["delete Deployment stock-1", "create Deployment demo"],
        again=2.0,
    ),
    "a unit with mounts gets no pod while the pod of its stock ends": Row(
        [ADMITTED.mounting("data"), HELD, WITHOUT_PODS, a_pod(STOCK, STOCK_DEPLOYMENT)],
        ["status GPUUnit demo"],
        *("Progressing", "AwaitingStock", "the pod of stock unit runtime-stock/stock-1 has not ended yet"),
        again=5.0,
    ),
    "an admitted unit whose stock is gone ends the stock's Deployment and waits for its pod": Row(
        [ADMITTED, STOCK_DEPLOYMENT, a_pod(STOCK, STOCK_DEPLOYMENT)],
        ["delete Deployment stock-1", "status GPUUnit demo"],
        *("Progressing", "AwaitingStock", "the pod of stock unit runtime-stock/stock-1 has not ended yet"),
        again=5.0,
    ),
    "an admitted unit whose stock ended is built": Row([ADMITTED], CREATES, again=2.0),
    "a live unit is not held up by a stock unit of the same name": Row(
        [ADMITTED, STOCK.with_uid("another")], CREATES, again=2.0
    ),
}

STOCK_ROWS: dict[str, Row] = {
    "seeded stock that its record lists becomes Ready": Row(
        [SEEDED, SEEDED_DEPLOYMENT, SEEDING.status(units=["stock-uid"])],
        ["status GPUUnit stock-001"],
        *("Ready", "UnitReady"),
        status={"listed": True},
    ),
    "seeded stock that its record does not list yet is held back": Row(
        [SEEDED, SEEDED_DEPLOYMENT, SEEDING],
        ["status GPUUnit stock-001"],
        *("Progressing", "AwaitingOperation", "has not listed it yet"),
    ),
    "seeded stock that is held back for a moment says so only if it lasts": Row(
        [SEEDED, SEEDED_DEPLOYMENT.metadata(creationTimestamp=NOW), SEEDING], again=2.0
    ),
    "seeded stock in whose place its record lists another is removed": Row(
        [SEEDED, SEEDED_DEPLOYMENT, SEEDING.status(units=["another"])],
        ["delete GPUUnit stock-001"],
    ),
    "seeded stock whose record is gone is removed": Row([SEEDED, SEEDED_DEPLOYMENT], ["delete GPUUnit stock-001"]),
    "a copy of seeded stock under another name is left alone": Row(
        [SEEDED.metadata(name="copy"), SEEDED_DEPLOYMENT, SEEDING.status(units=["stock-uid"])],
        ["create Deployment copy", "status GPUUnit copy"],
        *("Failed", "InvalidSpec", "a copy?"),
        events=["Warning InvalidSpec"],
        raises=Terminal,
    ),
}

ROWS = {**UNIT_ROWS, **HAND_OVER_ROWS, **STOCK_ROWS}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@mutant("controllers/gpuunit/reconcile.py", "                await self.admitter.admit(unit)\n", "")
@mutant("controllers/gpuunit/reconcile.py", "                await self.admitter.release(unit)\n", "")
@mutant("controllers/gpuunit/reconcile.py", "seen = await self.gate.after(seen)", "pass")
@mutant("controllers/gpuunit/reconcile.py", "        await self.teardown.remove(key)\n", "")
@mutant(
    "controllers/gpuunit/reconcile.py", "if blocked is not None and delay is None else", "if blocked is not None else"
)
@mutant("controllers/ready_status.py", "self._tell(obj, outcome)", "pass")
@mutant("controllers/ready_status.py", "if before is not None and before.reason == outcome.reason:", "if False:")
@mutant("kube/child_writer.py", "and self.is_complete(parent)", "")
async def test_reconcile(row: Row) -> None:
    await check("gpuunit", "GPUUnit", row)


@mutant("controllers/gpuunit/stock_gate.py", "unit.metadata.key, uid=unit.metadata.uid)", "unit.metadata.key)")
async def test_a_unit_that_took_the_name_of_stock_to_be_removed_stays() -> None:
    row = Row([SEEDED, SEEDED_DEPLOYMENT, SEEDING.status(units=["another"])])
    world = World(row)
    world.api.put(SEEDED.with_uid("another"))
    with pytest.raises(Conflict):
        await world.reconcile("gpuunit", row.key)
    left = world.api.find("GPUUnit", row.key.name)
    assert left is not None
    assert left["metadata"]["uid"] == "another"


async def test_an_admitted_unit_prefers_the_node_of_its_stock() -> None:
    deployment = children_of(ADMITTED.annotated({SOURCE_STOCK_NODE: "n7"}), GPUUnit)["Deployment"]
    assert "n7" in str(deployment.document()["spec"]["template"]["spec"]["affinity"])
