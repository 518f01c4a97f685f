"""The status of pools and units, from what is seen of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from equipment.builders import a_deployment, a_stock_pool, a_unit
from equipment.builders.base import Builder
from gpu_runtime.controllers.child_kinds.network import Service
from gpu_runtime.controllers.child_kinds.workloads import Deployment, PodView, ReplicaSetView
from gpu_runtime.controllers.gpuunit import readiness as unit_status
from gpu_runtime.controllers.labels import CONTROLLED_BY, REVISION
from gpu_runtime.controllers.readiness import Readiness
from gpu_runtime.controllers.stockpool import readiness as pool_status
from gpu_runtime.controllers.workload import Workload

DEPLOYMENT = a_deployment("d", "ns").with_uid("d-uid").at_generation(2).annotated({REVISION: "2"})
NEW = Builder({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "new", "uid": "new-uid"}})
NEW = NEW.annotated({REVISION: "2"}).controlled_by(DEPLOYMENT)
OLD = NEW.metadata(name="old", uid="old-uid").annotated({REVISION: "1"})
QUOTA = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}


def a_pod(replica_set: Builder, **status: Any) -> Builder:
    pod = Builder({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{replica_set.name}-p", "namespace": "ns"}})
    return pod.controlled_by(replica_set).spec(nodeName="n1").status(**status)


def crashed(replica_set: Builder) -> Builder:
    return a_pod(replica_set, containerStatuses=[{"name": "c", "state": {"terminated": {"exitCode": 1}}}])


def available(count: int, **more: Any) -> dict[str, Any]:
    numbers = {"replicas": count, "updatedReplicas": count, "availableReplicas": count}
    return {"observedGeneration": 2, **numbers, **more}


@dataclass(frozen=True)
class Case:
    """A workload as its controllers report it, and what is then said."""

    wanted: int = 1
    status: dict[str, Any] | None = field(default_factory=lambda: available(1))
    replica_sets: tuple[Builder, ...] = (NEW,)
    pods: tuple[Builder, ...] = ()
    blocked: Readiness | None = None
    deleting: bool = False
    want: tuple[str, str] = ("", "")
    want_message: str = ""

    @property
    def workload(self) -> Workload | None:
        if self.status is None:
            return None
        deployment = DEPLOYMENT.replicas(self.wanted).status(**self.status)
        deployment = deployment.being_deleted() if self.deleting else deployment
        return Workload(
            deployment.into(Deployment),
            [each.into(ReplicaSetView) for each in self.replica_sets],
            [each.into(PodView) for each in self.pods],
        )


INVALID = Readiness("failed", "InvalidSpec", "spec.memory: no")
POOLS = {
    "all are available": Case(want=("Ready", "DeploymentReady"), want_message="1 of 1 replicas are available"),
    "some are available": Case(
        wanted=3, status=available(2), want=("Progressing", "DeploymentProgressing"), want_message="2 of 3 replicas"
    ),
    "nothing is there yet": Case(
        status=None, want=("Progressing", "DeploymentProgressing"), want_message="0 of 1 replicas"
    ),
    "no replicas are wanted": Case(wanted=0, status=available(0), want=("Empty", "ScaledToZero")),
    "no replicas are wanted and some are left": Case(
        wanted=0, status=available(2), want=("Progressing", "DeploymentProgressing")
    ),
    "the numbers are of the spec before": Case(
        status=available(1, observedGeneration=1), want=("Progressing", "DeploymentProgressing")
    ),
    "a pod of the template before still runs": Case(
        status=available(1, updatedReplicas=0), want=("Progressing", "DeploymentProgressing")
    ),
    "a pod of the template before is left beside the new one": Case(
        status=available(1, replicas=2), want=("Progressing", "DeploymentProgressing")
    ),
    "a pod crashes": Case(
        status=available(0),
        pods=(crashed(NEW),),
        want=("Failed", "PodStartupFailed"),
        want_message="Pod new-p container c: exited with code 1",
    ),
    "a pod of the template before crashed": Case(
        status=available(0),
        replica_sets=(OLD, NEW),
        pods=(crashed(OLD),),
        want=("Progressing", "DeploymentProgressing"),
    ),
    "a crash that was seen before the new spec was": Case(
        status=available(0, observedGeneration=1),
        pods=(crashed(NEW),),
        want=("Progressing", "DeploymentProgressing"),
    ),
    "a quota refuses pods": Case(
        status=available(0),
        replica_sets=(NEW.status(conditions=[QUOTA]),),
        want=("Failed", "PodStartupFailed"),
        want_message="exceeded quota",
    ),
    "a quota refused pods of the template before": Case(
        status=available(0),
        replica_sets=(OLD.status(conditions=[QUOTA]), NEW),
        want=("Progressing", "DeploymentProgressing"),
    ),
    "one crashes and the others run": Case(
        wanted=3, status=available(2), pods=(crashed(NEW),), want=("Failed", "PodStartupFailed")
    ),
    "the spec is bad though old pods run": Case(blocked=INVALID, want=("Failed", "InvalidSpec")),
    "the Deployment is being deleted": Case(deleting=True, want=("Progressing", "DeploymentProgressing")),
}


@pytest.mark.parametrize("case", POOLS.values(), ids=POOLS)
def test_a_pool_of_which(case: Case) -> None:
    pool = a_stock_pool("p").replicas(case.wanted).at_generation(7).object()
    seen = pool_status.Observed(pool, case.workload, blocked=case.blocked)
    outcome = pool_status.readiness(seen)
    status = pool_status.status(seen, outcome)
    assert (status.phase, outcome.reason) == case.want
    assert case.want_message in outcome.message
    assert status.observedGeneration == outcome.condition(7).observedGeneration == 7
    assert status.allocated == max(case.wanted - status.available, 0)
    assert status.selector == "runtime.lokiwager.io/pool=p"


UNITS = {
    "the pod is ready": Case(want=("Ready", "UnitReady"), pods=(a_pod(NEW),)),
    "nothing is built yet": Case(status=None, want=("Progressing", "UnitProgressing"), want_message="nothing runs yet"),
    "the pod starts": Case(
        status=available(0),
        pods=(a_pod(NEW),),
        want=("Progressing", "UnitProgressing"),
        want_message="Pod new-p on node n1 is starting",
    ),
    "no pod is there yet": Case(
        status=available(0), want=("Progressing", "UnitProgressing"), want_message="its pod is being created"
    ),
    "the pod before must end first": Case(
        status=available(0),
        pods=(a_pod(OLD).being_deleted(),),
        want=("Progressing", "UnitProgressing"),
        want_message="the pod before it is ending",
    ),
    "the pod crashes": Case(status=available(0), pods=(crashed(NEW),), want=("Failed", "PodStartupFailed")),
    "the pod of the image before still runs": Case(
        status=available(1, observedGeneration=1), pods=(a_pod(OLD),), want=("Progressing", "UnitProgressing")
    ),
    "its stock is not released": Case(
        status=None,
        blocked=Readiness("progressing", "AwaitingStock", "stock unit s is not released yet"),
        want=("Progressing", "AwaitingStock"),
    ),
}


@pytest.mark.parametrize("case", UNITS.values(), ids=UNITS)
def test_a_unit_of_which(case: Case) -> None:
    unit = a_unit("u").at_generation(7).object()
    seen = unit_status.Observed(unit, case.workload, blocked=case.blocked)
    outcome = unit_status.readiness(seen)
    status = unit_status.status(seen, outcome)
    assert (status.phase, outcome.reason) == case.want
    assert case.want_message in outcome.message
    assert status.observedGeneration == 7


def test_a_unit_tells_its_node_and_address_as_long_as_they_are_there() -> None:
    unit = a_unit("u").ready("n0").status(accessURL="http://old", serviceName="u").object()
    service = msgspec.convert({"metadata": {"name": "u"}}, Service)
    case = Case(pods=(a_pod(NEW),))
    seen = unit_status.Observed(unit, case.workload, service, "http://new")
    status = unit_status.status(seen, unit_status.readiness(seen))
    assert (status.nodeName, status.accessURL, status.serviceName, status.readyReplicas) == ("n1", "http://new", "u", 1)
    gone = unit_status.Observed(unit, None, None, "http://new")
    status = unit_status.status(gone, unit_status.readiness(gone))
    assert (status.nodeName, status.accessURL, status.serviceName, status.readyReplicas) == ("", "", "", 0)


def test_cached_pods_and_replica_sets_keep_only_what_is_read() -> None:
    labels, notes = {CONTROLLED_BY: "u", "app": "x"}, {REVISION: "2", "copied": "much" * 100}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False"}]
    pod = a_pod(NEW, conditions=conditions).labelled(labels).annotated(notes).into(PodView)
    assert (pod.metadata.labels, pod.metadata.annotations) == ({CONTROLLED_BY: "u"}, {})
    assert [each.type for each in pod.status.conditions] == ["PodScheduled"]
    assert pod.metadata.controller is not None
    replica_set = NEW.labelled(labels).annotated(notes).into(ReplicaSetView)
    assert (replica_set.metadata.labels, replica_set.metadata.annotations) == ({CONTROLLED_BY: "u"}, {REVISION: "2"})
