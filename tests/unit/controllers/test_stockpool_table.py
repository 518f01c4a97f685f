"""What one reconcile of a pool does, by what it finds."""

from __future__ import annotations

import pytest

from equipment.builders import a_service, a_stock_pool, an_operation
from equipment.builders.base import Builder
from equipment.memory_api import refused
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID
from gpu_runtime.api.v1alpha1.labels import MANAGED_BY, MANAGER, OPERATION
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.labels import CONTROLLED_BY, REVISION
from gpu_runtime.kube import Conflict, ServerError, Terminal
from unit.controllers.table import Row, World, available, check, children_of

BARE = a_stock_pool("p").with_uid("pool-uid").at_generation(1).replicas(2)
POOL = BARE.spec(template={"ports": [{"name": "http", "port": 8080}]})
MADE = children_of(POOL, StockPool)
SERVICE = MADE["Service"]
DEPLOYMENT = MADE["Deployment"].with_uid("deployment-uid").at_generation(1).annotated({REVISION: "1"})
READY = POOL.status(
    phase="Ready",
    available=2,
    replicas=2,
    selector="runtime.lokiwager.io/pool=p",
    serviceName="pool-p",
    observedGeneration=1,
).condition("Ready", "True", "DeploymentReady", "2 of 2 replicas are available")
ASKED_BY = an_operation("op", "CreateStockPool").with_uid("op-uid")
ASKED = BARE.labelled({OPERATION: ASKED_BY.name}).annotated({OPERATION_UID: "op-uid"})
ANOTHER = a_stock_pool("p").with_uid("another-uid")

REPLICA_SET = Builder({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "pool-p-1"}})
REPLICA_SET = REPLICA_SET.in_namespace("default").with_uid("rs-uid").annotated({REVISION: "1"})
REPLICA_SET = REPLICA_SET.labelled({MANAGED_BY: MANAGER, CONTROLLED_BY: "pool-uid"}).controlled_by(DEPLOYMENT)
QUOTA = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}

ROWS: dict[str, Row] = {
    "a new pool gets its Service and its Deployment, and its status can wait": Row(
        [POOL], ["create Service pool-p", "create Deployment pool-p"], again=2.0
    ),
    "a new pool that does not listen gets a Deployment alone": Row([BARE], ["create Deployment pool-p"], again=2.0),
    "a pool with all replicas available is Ready": Row(
        [POOL, available(DEPLOYMENT, 2), SERVICE],
        ["status StockPool p"],
        *("Ready", "DeploymentReady", "2 of 2"),
        status={"available": 2, "allocated": None, "replicas": 2, "serviceName": "pool-p"},
    ),
    "a Ready pool causes no write": Row([READY, available(DEPLOYMENT, 2), SERVICE]),
    "a pool that lost a replica says how many it has": Row(
        [READY, available(DEPLOYMENT, 1), SERVICE],
        ["status StockPool p"],
        *("Progressing", "DeploymentProgressing", "1 of 2"),
        status={"available": 1, "allocated": 1},
    ),
    "a pool whose pods are refused is Failed": Row(
        [READY, DEPLOYMENT.status(observedGeneration=1), SERVICE, REPLICA_SET.status(conditions=[QUOTA])],
        ["status StockPool p"],
        *("Failed", "PodStartupFailed", "no pod can be created: exceeded quota"),
        events=["Warning PodStartupFailed: no pod can be created: exceeded quota"],
    ),
    "a scaled pool changes its Deployment and no template": Row(
        [READY.replicas(5).at_generation(2), available(DEPLOYMENT, 2), SERVICE],
        ["patch Deployment pool-p", "status StockPool p"],
        *("Progressing", "DeploymentProgressing", "2 of 5"),
    ),
    "a pool without replicas is Empty": Row(
        [BARE.replicas(0), available(children_of(BARE.replicas(0), StockPool)["Deployment"], 0).at_generation(1)],
        ["status StockPool p"],
        *("Empty", "ScaledToZero"),
    ),
    "the Service of a pool that no longer listens is deleted": Row(
        [READY.spec(template={}), available(DEPLOYMENT, 2), SERVICE],
        ["delete Service pool-p", "status StockPool p"],
        *("Ready", "DeploymentReady"),
        status={"serviceName": None},
    ),
    "a Service that somebody deleted is made again": Row(
        [READY, available(DEPLOYMENT, 2)],
        ["create Service pool-p"],
        events=["Normal DriftRepaired: Service pool-p was missing and was made again"],
    ),
    "a foreign Service of the pool's name is left alone": Row(
        [POOL, a_service("pool-p", "default").spec(ports=[{"port": 80, "targetPort": 80}])],
        ["create Service pool-p", "status StockPool p"],
        *("Failed", "NameConflict", "Service default/pool-p exists and is not ours"),
        events=["Warning NameConflict"],
        again=15.0,
    ),
    "a pool with memory that is no amount waits for its spec to change": Row(
        [BARE.spec(memory="lots")],
        ["status StockPool p"],
        *("Failed", "InvalidSpec", "spec.memory"),
        events=["Warning InvalidSpec"],
        raises=Terminal,
    ),
    "a refused Deployment is reported and tried again": Row(
        [BARE],
        ["create Deployment pool-p", "status StockPool p"],
        *("Failed", "DeploymentSyncFailed", "etcd is away"),
        events=["Warning DeploymentSyncFailed: etcd is away"],
        raises=ServerError,
        failures={"create Deployment pool-p": refused(ServerError, 500, "etcd is away")},
    ),
    "a conflict of the status is tried again without a word": Row(
        [POOL, available(DEPLOYMENT, 2), SERVICE],
        ["status StockPool p"],
        raises=Conflict,
        failures={"status StockPool p": refused(Conflict, 409, "newer")},
    ),
    "a pool in whose place its operation made another is deleted": Row(
        [ASKED, ASKED_BY.making(ANOTHER)], ["delete StockPool p"]
    ),
    "a pool that was built before stays, whatever its operation lists now": Row(
        [ASKED.status(observedGeneration=1), ASKED_BY.making(ANOTHER)], ["create Deployment pool-p"], again=2.0
    ),
    "a pool that its operation made is built": Row(
        [ASKED, ASKED_BY.making(ASKED)], ["create Deployment pool-p"], again=2.0
    ),
    "a pool whose operation is gone is built": Row([ASKED], ["create Deployment pool-p"], again=2.0),
    "a pool that is being deleted gets nothing new": Row([POOL.being_deleted().kept_by("example.org/x")]),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@mutant("controllers/stockpool/reconcile.py", "if await self._superseded(pool):", "if False:")
@mutant("controllers/stockpool/reconcile.py", "if pool.status.observedGeneration or not name", "if not name")
@mutant("controllers/stockpool/reconcile.py", "blocked = error\n", "pass\n")
async def test_reconcile(row: Row) -> None:
    await check("stockpool", "StockPool", row)


@mutant("controllers/stockpool/reconcile.py", "STOCK_POOLS, key, uid=pool.metadata.uid)", "STOCK_POOLS, key)")
async def test_a_pool_that_took_the_name_of_one_to_be_deleted_stays() -> None:
    row = Row([ASKED, ASKED_BY.making(ANOTHER)])
    world = World(row)
    world.api.put(ANOTHER)
    with pytest.raises(Conflict):
        await world.reconcile("stockpool", row.key)
    left = world.api.find("StockPool", row.key.name)
    assert left is not None
    assert left["metadata"]["uid"] == "another-uid"
