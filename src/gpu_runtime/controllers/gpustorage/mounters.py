"""Views of the objects that can mount a claim: pods, and the workloads that make pods. The judge reads them live."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.controllers.child_kinds.pod_template import Volume
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS, PODS, REPLICA_SETS, WorkloadCondition
from gpu_runtime.kube.resource import Resource

ENDED = ("Succeeded", "Failed")


class PodVolumes(Struct, frozen=True, omit_defaults=True, kw_only=True):
    volumes: list[Volume] = []

    def mounts(self, claim: str) -> bool:
        claims = [each.persistentVolumeClaim for each in self.volumes]
        return any(each is not None and each.claimName == claim for each in claims)


class PodTemplateVolumes(Struct, frozen=True, omit_defaults=True, kw_only=True):
    spec: PodVolumes = PodVolumes()


class MakerSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    replicas: int = 1
    suspend: bool = False
    template: PodTemplateVolumes = PodTemplateVolumes()


class MakerStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    observedGeneration: int = 0
    conditions: list[WorkloadCondition] = []


class Maker(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A workload that makes pods: a Deployment, ReplicaSet or Job."""

    metadata: ObjectMeta
    spec: MakerSpec = MakerSpec()
    status: MakerStatus = MakerStatus()

    def mounts(self, claim: str) -> bool:
        return self.spec.template.spec.mounts(claim)

    def can_mount(self, claim: str) -> bool:
        """Whether it may still make a pod that mounts the claim."""
        asks_for_pods = self.spec.replicas > 0 and not self.spec.suspend
        return self.mounts(claim) and asks_for_pods and not self._is_finished()

    def is_settled(self) -> bool:
        """Whether its controller has seen its current spec. Until then the controller may act on an earlier one."""
        return self.status.observedGeneration >= self.metadata.generation

    def _is_finished(self) -> bool:
        return any(each.type in ("Complete", "Failed") and each.status == "True" for each in self.status.conditions)


class MounterPodStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""


class MounterPod(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: PodVolumes = PodVolumes()
    status: MounterPodStatus = MounterPodStatus()

    def mounts(self, claim: str) -> bool:
        return self.status.phase not in ENDED and self.spec.mounts(claim)


DEPLOYMENT_MAKERS = DEPLOYMENTS.view(Maker)
REPLICA_SET_MAKERS = REPLICA_SETS.view(Maker)
JOB_MAKERS = Resource("batch", "v1", "Job", "jobs", Maker)
MOUNTER_PODS = PODS.view(MounterPod)
