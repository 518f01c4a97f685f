"""A Pod: what the node reads of its spec, and the status that the node writes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.local.node.agent.kinds.container import Container, PodSecurityContext
from gpu_runtime.local.node.agent.kinds.volume import Volume


class ReadinessGate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    conditionType: str


class PodSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containers: list[Container]
    initContainers: list[Container] = []
    volumes: list[Volume] = []
    restartPolicy: Literal["Always", "OnFailure", "Never"] = "Always"
    terminationGracePeriodSeconds: int = 30
    activeDeadlineSeconds: int | None = None
    nodeName: str = ""
    hostname: str = ""
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


class PodCondition(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None
    observedGeneration: int = 0


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

    name: str
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
    conditions: list[PodCondition] = []
    initContainerStatuses: list[ContainerStatus] = []
    containerStatuses: list[ContainerStatus] = []
    observedGeneration: int = 0


class Pod(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = PodStatus()

    def __str__(self) -> str:
        """As a kubelet names it in messages."""
        return f"{self.metadata.name}_{self.metadata.namespace}({self.metadata.uid})"
