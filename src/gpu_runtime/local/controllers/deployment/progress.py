"""The status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from gpu_runtime.local.controllers.deployment.rollout import bounds
from gpu_runtime.local.controllers.status_writer import moved_condition
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.kinds.workloads import Deployment, DeploymentStatus, ReplicaSet

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
CREATED, FOUND, UPDATED, COMPLETE, TIMED_OUT, CREATE_ERROR, PAUSED, RESUMED = (
    "NewReplicaSetCreated",
    "FoundNewReplicaSet",
    "ReplicaSetUpdated",
    "NewReplicaSetAvailable",
    "ProgressDeadlineExceeded",
    "ReplicaSetCreateError",
    "DeploymentPaused",
    "DeploymentResumed",
)
NO_DEADLINE = 2**31 - 1


@dataclass(frozen=True)
class Rollout:
    """What a status is computed from."""

    present: ReplicaSet | None
    olds: Sequence[ReplicaSet]

    @property
    def sets(self) -> list[ReplicaSet]:
        return [*self.olds, *([self.present] if self.present is not None else [])]


def find(conditions: Sequence[Condition], name: str) -> Condition | None:
    return next((one for one in conditions if one.type == name), None)


def with_condition(conditions: Sequence[Condition], new: Condition, now: datetime) -> list[Condition]:
    """The conditions with `new` last; unchanged if they have an equal one."""
    old = find(conditions, new.type)
    moved = moved_condition(old, new, now)
    return list(conditions) if moved is old else [*without_condition(conditions, new.type), moved]


def without_condition(conditions: Sequence[Condition], name: str) -> list[Condition]:
    return [one for one in conditions if one.type != name]


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progressDeadlineSeconds != NO_DEADLINE


def noted(deployment: Deployment, reason: str, message: str, now: datetime, status: str = "True") -> list[Condition]:
    """The conditions with a new Progressing condition. A Deployment without a deadline has none."""
    conditions = deployment.status.conditions
    if not has_deadline(deployment):
        return conditions
    return with_condition(conditions, Condition(type=PROGRESSING, status=status, reason=reason, message=message), now)


def pause_conditions(deployment: Deployment, now: datetime) -> list[Condition]:
    """Marks a paused Deployment. Restarts the deadline of a resumed one."""
    old = find(deployment.status.conditions, PROGRESSING)
    if not has_deadline(deployment) or (old is not None and old.reason == TIMED_OUT):
        return deployment.status.conditions
    was = old is not None and old.reason == PAUSED
    if deployment.spec.paused and not was:
        return noted(deployment, PAUSED, "Deployment is paused", now, "Unknown")
    if was and not deployment.spec.paused:
        return noted(deployment, RESUMED, "Deployment is resumed", now, "Unknown")
    return deployment.status.conditions


def counted(deployment: Deployment, rollout: Rollout, now: datetime) -> DeploymentStatus:
    """The counts and the Available condition."""
    sets = [one.status for one in rollout.sets]
    available = sum(one.availableReplicas for one in sets)
    enough = available >= bounds(deployment).least
    condition = Condition(
        type=AVAILABLE,
        status="True" if enough else "False",
        reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )
    return DeploymentStatus(
        observedGeneration=deployment.metadata.generation,
        replicas=sum(one.replicas for one in sets),
        updatedReplicas=rollout.present.status.replicas if rollout.present is not None else 0,
        readyReplicas=sum(one.readyReplicas for one in sets),
        availableReplicas=available,
        unavailableReplicas=max(0, sum(one.spec.replicas for one in rollout.sets) - available),
        terminatingReplicas=sum(one.terminatingReplicas or 0 for one in sets),
        collisionCount=deployment.status.collisionCount,
        conditions=with_condition(deployment.status.conditions, condition, now),
    )


def status_of(deployment: Deployment, rollout: Rollout, now: datetime) -> DeploymentStatus:
    """The whole status of a Deployment whose rollout goes on or has ended."""
    status = counted(deployment, rollout, now)
    conditions = _progressing(deployment, rollout, status, now)
    failure = _replica_failure(rollout)
    if failure is not None:
        conditions = with_condition(conditions, failure, now)
    else:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    return replace(status, conditions=conditions)


def _progressing(deployment: Deployment, rollout: Rollout, status: DeploymentStatus, now: datetime) -> list[Condition]:
    conditions = status.conditions
    if not has_deadline(deployment):
        return without_condition(conditions, PROGRESSING)
    old = find(deployment.status.conditions, PROGRESSING)
    if status.replicas == status.updatedReplicas and old is not None and old.reason == COMPLETE:
        return conditions
    subject = (
        f'ReplicaSet "{rollout.present.metadata.name}"'
        if rollout.present is not None
        else f'Deployment "{deployment.metadata.name}"'
    )
    if is_complete(deployment, status):
        condition = Condition(
            type=PROGRESSING, status="True", reason=COMPLETE, message=f"{subject} has successfully progressed."
        )
        return with_condition(conditions, condition, now)
    if _advanced(deployment.status, status):
        condition = Condition(type=PROGRESSING, status="True", reason=UPDATED, message=f"{subject} is progressing.")
        since = old.lastTransitionTime if old is not None and old.status == "True" else now.replace(microsecond=0)
        # Written again although it says the same: the deadline counts from the last progress.
        moved = replace(condition, lastUpdateTime=now.replace(microsecond=0), lastTransitionTime=since)
        return [*without_condition(conditions, PROGRESSING), moved]
    if timed_out(deployment, old, now):
        condition = Condition(
            type=PROGRESSING, status="False", reason=TIMED_OUT, message=f"{subject} has timed out progressing."
        )
        return with_condition(conditions, condition, now)
    return conditions


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    wanted = deployment.spec.replicas
    return (
        status.updatedReplicas == status.replicas == status.availableReplicas == wanted
        and status.observedGeneration >= deployment.metadata.generation
    )


def _advanced(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updatedReplicas > before.updatedReplicas
        or after.replicas - after.updatedReplicas < before.replicas - before.updatedReplicas
        or after.readyReplicas > before.readyReplicas
        or after.availableReplicas > before.availableReplicas
    )


def timed_out(deployment: Deployment, condition: Condition | None, now: datetime) -> bool:
    if condition is None or condition.reason == COMPLETE:
        return False
    return condition.reason == TIMED_OUT or (_deadline(deployment, condition) or now) < now


def _deadline(deployment: Deployment, condition: Condition) -> datetime | None:
    if condition.lastUpdateTime is None:
        return None
    return condition.lastUpdateTime + timedelta(seconds=deployment.spec.progressDeadlineSeconds)


def next_check(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Seconds until the deadline of a rollout that is under way."""
    condition = find(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or condition is None or is_complete(deployment, status):
        return None
    if condition.reason in {TIMED_OUT, COMPLETE, PAUSED}:
        return None
    deadline = _deadline(deployment, condition)
    return None if deadline is None else max(0.0, (deadline - now).total_seconds()) + 1


def _replica_failure(rollout: Rollout) -> Condition | None:
    """The failure of a ReplicaSet that cannot create its pods; that of the present one comes first."""
    newest_first = ([rollout.present] if rollout.present is not None else []) + list(rollout.olds)
    found = (find(one.status.conditions, REPLICA_FAILURE) for one in newest_first)
    failure = next((one for one in found if one is not None and one.status == "True"), None)
    if failure is None:
        return None
    return Condition(type=REPLICA_FAILURE, status="True", reason=failure.reason, message=failure.message)
