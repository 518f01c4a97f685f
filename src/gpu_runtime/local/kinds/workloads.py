"""Deployments, ReplicaSets and Jobs as their controllers read them, and their whole status as it is written."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.wire import Condition, LabelSelector, Template


class RollingUpdate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    maxSurge: int | str = "25%"
    maxUnavailable: int | str = "25%"


class Strategy(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str = "RollingUpdate"
    rollingUpdate: RollingUpdate | None = None


class DeploymentSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Template = {}
    strategy: Strategy = Strategy()
    minReadySeconds: int = 0
    revisionHistoryLimit: int = 10
    progressDeadlineSeconds: int = 600
    paused: bool = False


class DeploymentStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    unavailableReplicas: int = 0
    terminatingReplicas: int | None = None
    collisionCount: int | None = None
    conditions: list[Condition] = []


class Deployment(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Template = {}
    minReadySeconds: int = 0


class ReplicaSetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`replicas` is always written: the API server requires it."""

    replicas: int = 0
    fullyLabeledReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    terminatingReplicas: int | None = None
    observedGeneration: int = 0
    conditions: list[Condition] = []


class ReplicaSet(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    parallelism: int = 1
    completions: int | None = None
    completionMode: str = "NonIndexed"
    backoffLimit: int = 6
    activeDeadlineSeconds: int | None = None
    ttlSecondsAfterFinished: int | None = None
    selector: LabelSelector = LabelSelector()
    suspend: bool = False
    podReplacementPolicy: str = "TerminatingOrFailed"
    managedBy: str = ""
    template: Template = {}


class UncountedPods(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Ended pods that are not in the counters yet."""

    succeeded: list[str] = []
    failed: list[str] = []


class JobStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    conditions: list[Condition] = []
    startTime: datetime | None = None
    completionTime: datetime | None = None
    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    uncountedTerminatedPods: UncountedPods | None = None


class Job(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", Deployment)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", ReplicaSet)
JOBS = Resource("batch", "v1", "Job", "jobs", Job)
