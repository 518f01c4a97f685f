"""Pods: their spec as it is read, and their status as the node writes it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.container import Container, PodSecurityContext
from gpu_runtime.local.kinds.volume import Volume
from gpu_runtime.local.kinds.wire import Condition, Requirement


class NodeSelectorTerm(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    matchExpressions: list[Requirement] = []
    matchFields: list[Requirement] = []


class NodeSelector(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    nodeSelectorTerms: list[NodeSelectorTerm] = []


class NodeAffinity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None


class Affinity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    nodeAffinity: NodeAffinity | None = None


class SchedulingGate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str


class ReadinessGate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    conditionType: str


class PodSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containers: list[Container] = []
    initContainers: list[Container] = []
    volumes: list[Volume] = []
    overhead: dict[str, str] = {}
    restartPolicy: Literal["Always", "OnFailure", "Never"] = "Always"
    terminationGracePeriodSeconds: int = 30
    activeDeadlineSeconds: int | None = None
    nodeName: str = ""
    nodeSelector: dict[str, str] = {}
    affinity: Affinity | None = None
    priority: int = 0
    priorityClassName: str = ""
    schedulerName: str = "default-scheduler"
    schedulingGates: list[SchedulingGate] = []
    hostname: str = ""
    subdomain: str = ""
    hostNetwork: bool = False
    serviceAccountName: str = "default"
    enableServiceLinks: bool = True
    securityContext: PodSecurityContext = PodSecurityContext()
    readinessGates: list[ReadinessGate] = []

    @property
    def gates(self) -> list[str]:
        return [gate.conditionType for gate in self.readinessGates]


class PodMeta(ObjectMeta, frozen=True, omit_defaults=True, kw_only=True):
    deletionGracePeriodSeconds: int | None = None


class Waiting(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    startedAt: datetime | None = None


class Terminated(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    exitCode: int = msgspec.field(default=-1)
    signal: int = 0
    reason: str = ""
    message: str = ""
    startedAt: datetime | None = None
    finishedAt: datetime | None = None
    containerID: str = ""


class State(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Exactly one is set; none in a `lastState` of a first run."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Every field is written, as a kubelet does: readers tell `false` from absent."""

    name: str = ""
    state: State = State()
    lastState: State = State()
    ready: bool = False
    restartCount: int = 0
    image: str = ""
    imageID: str = ""
    containerID: str | msgspec.UnsetType = msgspec.UNSET
    started: bool | msgspec.UnsetType = msgspec.UNSET


class Address(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    ip: str


class PodStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The kubelet's part of a Pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    hostIP: str = ""
    hostIPs: list[Address] = []
    podIP: str = ""
    podIPs: list[Address] = []
    startTime: datetime | None = None
    conditions: list[Condition] = []
    initContainerStatuses: list[ContainerStatus] = []
    containerStatuses: list[ContainerStatus] = []
    observedGeneration: int = 0


class Pod(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def __str__(self) -> str:
        """The pod's name in a kubelet's messages."""
        return f"{self.metadata.name}_{self.metadata.namespace}({self.metadata.uid})"

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
