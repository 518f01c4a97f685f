"""Pods as controllers and the scheduler read them."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.controllers.wire import Condition, Requirement


class Resources(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ContainerPort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containerPort: int
    name: str = ""
    protocol: str = "TCP"


class Container(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    ports: list[ContainerPort] = []
    resources: Resources = Resources()
    restartPolicy: str = ""


class NodeSelectorTerm(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    matchExpressions: list[Requirement] = []
    matchFields: list[Requirement] = []


class NodeSelector(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    nodeSelectorTerms: list[NodeSelectorTerm] = []


class NodeAffinity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None


class Affinity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    nodeAffinity: NodeAffinity | None = None


class ClaimSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    claimName: str


class Volume(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    persistentVolumeClaim: ClaimSource | None = None


class SchedulingGate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str


class PodSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containers: list[Container] = []
    initContainers: list[Container] = []
    overhead: dict[str, str] = {}
    nodeName: str = ""
    nodeSelector: dict[str, str] = {}
    affinity: Affinity | None = None
    priority: int = 0
    schedulerName: str = "default-scheduler"
    schedulingGates: list[SchedulingGate] = []
    volumes: list[Volume] = []
    restartPolicy: str = "Always"
    hostname: str = ""
    subdomain: str = ""
    activeDeadlineSeconds: int | None = None
    preemptionPolicy: str = ""
    priorityClassName: str = ""


class Terminated(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    exitCode: int = 0
    finishedAt: datetime | None = None


class State(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    restartCount: int = 0
    state: State = State()


class PodStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    podIP: str = ""
    conditions: list[Condition] = []
    containerStatuses: list[ContainerStatus] = []
    initContainerStatuses: list[ContainerStatus] = []
    startTime: datetime | None = None


class Pod(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def active(self) -> bool:
        """It runs or will run: it counts toward what its owner wants."""
        return not self.finished and self.metadata.deletionTimestamp is None

    @property
    def terminating(self) -> bool:
        return not self.finished and self.metadata.deletionTimestamp is not None

    @property
    def ready_condition(self) -> Condition | None:
        return next((one for one in self.status.conditions if one.type == "Ready"), None)

    @property
    def ready(self) -> bool:
        condition = self.ready_condition
        return condition is not None and condition.status == "True"

    @property
    def claims(self) -> list[str]:
        """The names of the PersistentVolumeClaims that it mounts."""
        return [one.persistentVolumeClaim.claimName for one in self.spec.volumes if one.persistentVolumeClaim]

    def available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Ready for as long as its owner asks for."""
        left = self.available_in(min_ready_seconds, now)
        return left is not None and left <= 0

    def available_in(self, min_ready_seconds: int, now: datetime) -> float | None:
        """Seconds until it counts as available; None while it is not ready."""
        condition = self.ready_condition
        if condition is None or condition.status != "True":
            return None
        if not min_ready_seconds:
            return 0
        since = condition.lastTransitionTime or now
        return (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()


PODS = Resource("", "v1", "Pod", "pods", Pod)
