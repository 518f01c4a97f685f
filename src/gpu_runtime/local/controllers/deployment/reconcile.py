"""Drives one Deployment toward its spec: adopt, create the present ReplicaSet, resize one step, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.claiming import OWNER, Claiming
from gpu_runtime.local.controllers.deployment import progress, rollout
from gpu_runtime.local.controllers.deployment.revisions import (
    DESIRED,
    REVISION,
    find_current,
    new_set,
    next_revision,
    oldest_first,
    revision_of,
    same_template,
    set_annotations,
    size_annotations,
)
from gpu_runtime.local.controllers.deployment.rollout import Size
from gpu_runtime.local.controllers.messages import server_message
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.kinds.workloads import DEPLOYMENTS, REPLICA_SETS, Deployment, DeploymentStatus, ReplicaSet


class DeploymentReconciler:
    """Reads caches only; every write names the version that it was decided on."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        deployments: Store[Deployment],
        sets: Store[ReplicaSet],
        pods: Store[Pod],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._deployments = deployments
        self._pods = pods
        self._claiming = Claiming(client, DEPLOYMENTS, REPLICA_SETS, sets)
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        deployment = self._deployments.get(key)
        if deployment is None:
            return Result()
        sets = oldest_first(await self._claiming.children(deployment, deployment.spec.selector))
        now = self._clock.now()
        if deployment.metadata.deletionTimestamp is not None:
            return await self._report(deployment, _observed(deployment, sets), now)
        paused = progress.pause_conditions(deployment, now)
        if paused != deployment.status.conditions:
            deployment = await self._remark(deployment, paused)
        present = find_current(deployment, sets)
        if deployment.spec.paused or _size_changed(deployment, sets):
            return await self._resize(deployment, sets, present, now)
        if deployment.spec.strategy.type == "Recreate":
            return await self._recreate(deployment, sets, present, now)
        deployment, present = await self._ensure_present(deployment, sets, present)
        olds = [one for one in sets if one.metadata.uid != present.metadata.uid]
        step = rollout.rolling_update(rollout.bounds(deployment), _size(present, True), _sizes(olds))
        await self._scale(deployment, [*olds, present], step)
        return await self._report(deployment, progress.Rollout(present, olds), now, settled=not step)

    async def _recreate(
        self, deployment: Deployment, sets: list[ReplicaSet], present: ReplicaSet | None, now: datetime
    ) -> Result:
        olds = [one for one in sets if one is not present]
        shrink = rollout.recreate(rollout.bounds(deployment), None, _sizes(olds), old_pods_left=True)
        if shrink or self._pods_left(olds):
            await self._scale(deployment, olds, shrink)
            return await self._report(deployment, progress.Rollout(present, olds), now)
        deployment, present = await self._ensure_present(deployment, sets, present)
        step = rollout.recreate(rollout.bounds(deployment), _size(present, True), _sizes(olds), old_pods_left=False)
        await self._scale(deployment, [present], step)
        return await self._report(deployment, progress.Rollout(present, olds), now, settled=not step)

    def _pods_left(self, olds: Sequence[ReplicaSet]) -> bool:
        return any(not pod.finished for one in olds for pod in self._pods.find(OWNER, one.metadata.uid))

    async def _resize(
        self, deployment: Deployment, sets: list[ReplicaSet], present: ReplicaSet | None, now: datetime
    ) -> Result:
        """Scales a Deployment that is paused or whose size changed. This is not a step of a rollout."""
        if present is not None:
            deployment, present = await self._ensure_present(deployment, sets, present)
        olds = [one for one in sets if present is None or one.metadata.uid != present.metadata.uid]
        sizes = rollout.resized(
            rollout.bounds(deployment),
            _size(present, True) if present is not None else None,
            _sizes(olds),
        )
        everything = [*olds, *([present] if present is not None else [])]
        await self._scale(deployment, everything, sizes, annotate_all=True)
        return await self._report(deployment, progress.Rollout(present, olds), now)

    async def _ensure_present(
        self, deployment: Deployment, sets: Sequence[ReplicaSet], present: ReplicaSet | None
    ) -> tuple[Deployment, ReplicaSet]:
        """Creates or annotates the ReplicaSet of the present template. Writes its revision to the Deployment too."""
        olds = [one for one in sets if one is not present]
        revision = next_revision(olds)
        if present is None:
            deployment, present = await self._create(deployment, olds, revision)
            reason, message = progress.CREATED, f'Created new replica set "{present.metadata.name}"'
        else:
            present = await self._annotate(deployment, present, revision)
            reason, message = progress.FOUND, f'Found new replica set "{present.metadata.name}"'
        text = str(revision_of(present.metadata))
        if deployment.metadata.annotations.get(REVISION) != text:
            patch = {"metadata": {**identity(deployment.metadata), "annotations": {REVISION: text}}}
            deployment = await self._client.patch(DEPLOYMENTS, deployment.metadata.key, patch)
        if reason == progress.CREATED or progress.find(deployment.status.conditions, progress.PROGRESSING) is None:
            conditions = progress.noted(deployment, reason, message, self._clock.now())
            deployment = replace(deployment, status=replace(deployment.status, conditions=conditions))
        return deployment, present

    async def _create(
        self, deployment: Deployment, olds: Sequence[ReplicaSet], revision: int
    ) -> tuple[Deployment, ReplicaSet]:
        recreate = deployment.spec.strategy.type == "Recreate"
        replicas = rollout.first_size(rollout.bounds(deployment), _sizes(olds), recreate=recreate)
        document = new_set(deployment, replicas, revision)
        name = document["metadata"]["name"]
        try:
            created = await self._client.create(REPLICA_SETS, document)
        except AlreadyExists:
            return deployment, await self._found_by_name(deployment, document)
        except Conflict:
            raise
        except ApiError as error:
            message = f'Failed to create new replica set "{name}": {server_message(error)}'
            conditions = progress.noted(deployment, progress.CREATE_ERROR, message, self._clock.now(), "False")
            await self._remark(deployment, conditions)
            self._recorder.event(DEPLOYMENTS, deployment, progress.CREATE_ERROR, message, type="Warning")
            raise
        if replicas:
            self._say_scaled(deployment, name, 0, replicas)
        return deployment, created

    async def _found_by_name(self, deployment: Deployment, document: Mapping[str, Any]) -> ReplicaSet:
        """Returns the ReplicaSet if it is ours: the cache is behind. Otherwise the next try uses another name."""
        key = Key(deployment.metadata.namespace, document["metadata"]["name"])
        live = await self._client.get(REPLICA_SETS, key)
        owner = live.metadata.controller
        if owner is not None and owner.uid == deployment.metadata.uid and same_template(deployment, live):
            return live
        collisions = (deployment.status.collisionCount or 0) + 1
        status = replace(deployment.status, collisionCount=collisions)
        await write_status(self._client, DEPLOYMENTS, deployment, deployment.status, status)
        raise Conflict(409, "Conflict", f"ReplicaSet {key} is not ours: another name next", causes=[], retry_after=None)

    async def _annotate(self, deployment: Deployment, present: ReplicaSet, revision: int) -> ReplicaSet:
        wanted = set_annotations(deployment, present, revision)
        missing = {key: value for key, value in wanted.items() if present.metadata.annotations.get(key) != value}
        patch: dict[str, Any] = {"annotations": missing} if missing else {}
        spec = (
            {"minReadySeconds": deployment.spec.minReadySeconds}
            if present.spec.minReadySeconds != deployment.spec.minReadySeconds
            else {}
        )
        if not patch and not spec:
            return present
        document = {"metadata": {**identity(present.metadata), **patch}, "spec": spec}
        return await self._client.patch(REPLICA_SETS, present.metadata.key, document)

    async def _scale(
        self,
        deployment: Deployment,
        sets: Sequence[ReplicaSet],
        sizes: Mapping[str, int],
        *,
        annotate_all: bool = False,
    ) -> None:
        wanted = size_annotations(deployment)
        for one in sets:
            size = sizes.get(one.metadata.name, one.spec.replicas)
            stale = any(one.metadata.annotations.get(key) != value for key, value in wanted.items())
            if size == one.spec.replicas and not (stale and annotate_all and size):
                continue
            document = {
                "metadata": {**identity(one.metadata), "annotations": wanted},
                "spec": {"replicas": size},
            }
            await self._client.patch(REPLICA_SETS, one.metadata.key, document)
            if size != one.spec.replicas:
                self._say_scaled(deployment, one.metadata.name, one.spec.replicas, size)

    def _say_scaled(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        self._recorder.event(DEPLOYMENTS, deployment, "ScalingReplicaSet", message)

    async def _report(
        self, deployment: Deployment, observed: progress.Rollout, now: datetime, *, settled: bool = False
    ) -> Result:
        cached = self._deployments.get(deployment.metadata.key)
        before = cached.status if cached is not None else DeploymentStatus()
        if deployment.spec.paused or deployment.metadata.deletionTimestamp is not None:
            after = progress.counted(deployment, observed, now)
        else:
            after = progress.status_of(deployment, observed, now)
        await write_status(self._client, DEPLOYMENTS, deployment, before, after)
        if settled and progress.is_complete(deployment, after):
            await self._forget_history(deployment, observed.olds)
        return Result(progress.next_check(deployment, after, now))

    async def _forget_history(self, deployment: Deployment, olds: Sequence[ReplicaSet]) -> None:
        """Deletes the oldest empty ReplicaSets beyond the history limit."""
        empty = [one for one in olds if _forgettable(one)]
        surplus = len(empty) - deployment.spec.revisionHistoryLimit
        for one in sorted(empty, key=lambda one: revision_of(one.metadata))[: max(0, surplus)]:
            try:
                await self._client.delete(
                    REPLICA_SETS, one.metadata.key, uid=one.metadata.uid, propagation="Background"
                )
            except NotFound:
                continue

    async def _remark(self, deployment: Deployment, conditions: list[Condition]) -> Deployment:
        if conditions == deployment.status.conditions:
            return deployment
        patch = {
            "metadata": identity(deployment.metadata),
            "status": {"conditions": conditions},
        }
        return await self._client.patch(DEPLOYMENTS, deployment.metadata.key, patch, subresource="status")


def _observed(deployment: Deployment, sets: Sequence[ReplicaSet]) -> progress.Rollout:
    present = find_current(deployment, sets)
    return progress.Rollout(present, [one for one in sets if one is not present])


def _size_changed(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    wanted = str(deployment.spec.replicas)
    return any(one.spec.replicas and one.metadata.annotations.get(DESIRED, wanted) != wanted for one in sets)


def _forgettable(one: ReplicaSet) -> bool:
    return (
        one.status.replicas == one.spec.replicas == 0
        and one.metadata.generation <= one.status.observedGeneration
        and one.metadata.deletionTimestamp is None
    )


def _sizes(sets: Sequence[ReplicaSet]) -> list[Size]:
    return [_size(one, False) for one in sets]


def _size(one: ReplicaSet, present: bool) -> Size:
    annotations = one.metadata.annotations
    return Size(
        one.metadata.name,
        one.spec.replicas,
        one.status.availableReplicas,
        _number(annotations.get(DESIRED)),
        present,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
