"""Deployments as we write and read them, and the parts of ReplicaSets and Pods that show why pods do not run."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, structs

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.controllers.child_kinds.pod_template import PodTemplate
from gpu_runtime.controllers.labels import CONTROLLED_BY, REVISION
from gpu_runtime.kube.resource import Resource


class LabelSelector(Struct, frozen=True, omit_defaults=True, kw_only=True):
    matchLabels: dict[str, str] = {}


class RollingUpdate(Struct, frozen=True, omit_defaults=True, kw_only=True):
    maxSurge: int | str = "25%"
    maxUnavailable: int | str = "25%"


class Strategy(Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str = "RollingUpdate"
    rollingUpdate: RollingUpdate | None = None


class DeploymentSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    replicas: int = 1
    selector: LabelSelector
    strategy: Strategy = Strategy()
    template: PodTemplate
    revisionHistoryLimit: int = 10
    paused: bool = False


class WorkloadCondition(Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class DeploymentStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    availableReplicas: int = 0


class Deployment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: DeploymentSpec
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    conditions: list[WorkloadCondition] = []


class ReplicaSetView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A ReplicaSet as the cache keeps it: which revision it is, and why it cannot make pods. Never written back."""

    metadata: ObjectMeta
    status: ReplicaSetStatus = ReplicaSetStatus()

    def __post_init__(self) -> None:
        # Kubernetes copies the Deployment's annotations to it, with the whole pod template.
        _forget_all_but(self.metadata, labels=(CONTROLLED_BY,), annotations=(REVISION,))


class Waiting(Struct, frozen=True, omit_defaults=True, kw_only=True):
    reason: str = ""
    message: str = ""


class Running(Struct, frozen=True, omit_defaults=True, kw_only=True):
    startedAt: datetime | None = None


class Terminated(Struct, frozen=True, omit_defaults=True, kw_only=True):
    exitCode: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True, omit_defaults=True, kw_only=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    ready: bool = False
    state: ContainerState = ContainerState()
    lastState: ContainerState = ContainerState()


class PodStatusView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[WorkloadCondition] = []
    initContainerStatuses: list[ContainerStatus] = []
    containerStatuses: list[ContainerStatus] = []


class PodSpecView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    nodeName: str = ""


class PodView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A Pod as the cache keeps it: its node and its state. Never written back."""

    metadata: ObjectMeta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

    def __post_init__(self) -> None:
        _forget_all_but(self.metadata, labels=(CONTROLLED_BY,), annotations=())
        if self.status.conditions:
            # Only conditions that are not True show why a pod does not run.
            wanting = [each for each in self.status.conditions if each.status != "True"]
            structs.force_setattr(self.status, "conditions", wanting)


def _forget_all_but(meta: ObjectMeta, *, labels: tuple[str, ...], annotations: tuple[str, ...]) -> None:
    """Half of the memory of ten thousand cached objects is labels and annotations that nobody reads."""
    structs.force_setattr(meta, "labels", {name: meta.labels[name] for name in labels if name in meta.labels})
    noted = {name: meta.annotations[name] for name in annotations if name in meta.annotations}
    structs.force_setattr(meta, "annotations", noted)


DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", Deployment)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", ReplicaSetView)
PODS = Resource("", "v1", "Pod", "pods", PodView)
