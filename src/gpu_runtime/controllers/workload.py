"""The state of a Deployment with its pods: complete, progressing or failing, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.controllers.child_kinds.workloads import Deployment, PodView, ReplicaSetView
from gpu_runtime.controllers.labels import REVISION, is_controlled_by
from gpu_runtime.controllers.startup_failure import startup_failure, startup_progress


@dataclass(frozen=True)
class Workload:
    """A Deployment with the ReplicaSets and pods that were made for it."""

    deployment: Deployment
    replica_sets: Sequence[ReplicaSetView] = ()
    pods: Sequence[PodView] = ()

    @property
    def observed(self) -> bool:
        """Whether the status is about the current spec."""
        return self.deployment.status.observedGeneration >= self.deployment.metadata.generation

    @property
    def complete(self) -> bool:
        """Whether all wanted pods run the current template and are available, and no older pod is left."""
        status, wanted = self.deployment.status, self.deployment.spec.replicas
        if self.deployment.metadata.deletionTimestamp is not None:
            return False
        return self.observed and status.updatedReplicas == status.replicas == status.availableReplicas == wanted

    @property
    def failure(self) -> str | None:
        """Why the pods of the current template do not start, if something prevents it."""
        current = self._current_replica_set()
        return startup_failure(self._pods_of(current), current) if current is not None else None

    @property
    def progress(self) -> str:
        """What the newest pod of the current template waits for."""
        current = self._current_replica_set()
        pods = [pod for pod in self._pods_of(current) if pod.metadata.deletionTimestamp is None] if current else []
        if not pods:
            ending = any(pod.metadata.deletionTimestamp is not None for pod in self.pods)
            return "the pod before it is ending" if ending else "its pod is being created"
        return startup_progress(max(pods, key=_age))

    @property
    def node(self) -> str:
        """The node of its newest pod."""
        placed = [pod for pod in self.pods if pod.spec.nodeName and pod.metadata.deletionTimestamp is None]
        return max(placed, key=_age).spec.nodeName if placed else ""

    def _current_replica_set(self) -> ReplicaSetView | None:
        """The ReplicaSet of the current template; None while the Deployment's status is behind its spec."""
        if not self.observed:
            return None
        revision = self.deployment.metadata.annotations.get(REVISION)
        mine = [each for each in self.replica_sets if is_controlled_by(each.metadata, self.deployment.metadata)]
        return next((each for each in mine if each.metadata.annotations.get(REVISION) == revision), None)

    def _pods_of(self, current: ReplicaSetView) -> list[PodView]:
        return [pod for pod in self.pods if is_controlled_by(pod.metadata, current.metadata)]


def _age(pod: PodView) -> tuple[str, str]:
    created = pod.metadata.creationTimestamp
    return (created.isoformat() if created else "", pod.metadata.name)
