"""ReplicaSets: as many pods of one template as were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import ApiError, NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.expectations import Expectations
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.claiming import Claiming
from gpu_runtime.local.controllers.creating import MOST_AT_ONCE, create_pods, pod_from
from gpu_runtime.local.controllers.deployment.progress import find, with_condition, without_condition
from gpu_runtime.local.controllers.messages import server_message
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.kinds.workloads import REPLICA_SETS, ReplicaSet, ReplicaSetStatus

FAILURE = "ReplicaFailure"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_EPOCH = datetime.fromtimestamp(0, UTC)
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Sequence[Pod]) -> list[Pod]:
    """First the unassigned, pending, not ready, of low deletion cost, ready shortly, often restarted, young."""

    def loss(pod: Pod) -> tuple[object, ...]:
        ready = pod.ready_condition
        since = ready.lastTransitionTime if ready is not None and ready.status == "True" else None
        restarts = sum(one.restartCount for one in pod.status.containerStatuses)
        return (
            bool(pod.spec.nodeName),
            _PHASES.get(pod.status.phase, 2),
            pod.ready,
            _cost(pod),
            -(since or _EPOCH).timestamp(),
            -restarts,
            -(pod.metadata.creationTimestamp or _EPOCH).timestamp(),
            pod.metadata.name,
        )

    return sorted(pods, key=loss)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    return int(text) if text.lstrip("-").isdigit() else 0


def status_of(
    replica_set: ReplicaSet, pods: Sequence[Pod], failure: Condition | None, now: datetime
) -> ReplicaSetStatus:
    """Counts, and ReplicaFailure while pods cannot be made or deleted."""
    active = [pod for pod in pods if pod.active]
    labels = ((replica_set.spec.template.get("metadata") or {}).get("labels") or {}).items()
    conditions = replica_set.status.conditions
    if failure is None:
        conditions = without_condition(conditions, FAILURE)
    elif find(conditions, FAILURE) is None:
        conditions = with_condition(conditions, failure, now)
    return ReplicaSetStatus(
        replicas=len(active),
        fullyLabeledReplicas=sum(labels <= pod.metadata.labels.items() for pod in active),
        readyReplicas=sum(pod.ready for pod in active),
        availableReplicas=sum(pod.available(replica_set.spec.minReadySeconds, now) for pod in active),
        terminatingReplicas=sum(pod.terminating for pod in pods),
        observedGeneration=replica_set.metadata.generation,
        conditions=[replace(one, lastUpdateTime=None) for one in conditions],
    )


class ReplicaSetReconciler:
    """Creates and deletes pods until their number fits."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        sets: Store[ReplicaSet],
        pods: Store[Pod],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._sets = sets
        self._pods = pods
        self._claiming = Claiming(client, REPLICA_SETS, PODS, pods)
        self._created = Expectations(pods)
        self._going: dict[Key, set[str]] = {}  # uids of pods that we deleted and the cache still shows as active
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        replica_set = self._sets.get(key)
        if replica_set is None:
            self._going.pop(key, None)
            return Result()
        if not self._created.met(key):
            return Result(0.01)  # the cache does not show all pods that we created yet
        pods = await self._claiming.children(replica_set, replica_set.spec.selector)
        active = self._still_active(key, pods)
        failure = None
        if replica_set.metadata.deletionTimestamp is None:
            failure = await self._manage(replica_set, active)
        now = self._clock.now()
        after = status_of(replica_set, pods, _failure_condition(failure), now)
        await write_status(self._client, REPLICA_SETS, replica_set, replica_set.status, after)
        if failure is not None:
            raise failure
        return Result(self._next_check(replica_set, active, now))

    def _still_active(self, key: Key, pods: Sequence[Pod]) -> list[Pod]:
        shown = {pod.metadata.uid for pod in pods if pod.active}
        going = self._going.get(key, set()) & shown
        if going:
            self._going[key] = going
        else:
            self._going.pop(key, None)
        return [pod for pod in pods if pod.active and pod.metadata.uid not in going]

    async def _manage(self, replica_set: ReplicaSet, active: Sequence[Pod]) -> ApiError | None:
        difference = replica_set.spec.replicas - len(active)
        if difference > 0:
            return await self._create(replica_set, difference)
        if difference < 0:
            return await self._delete(replica_set, active, -difference)
        return None

    async def _create(self, replica_set: ReplicaSet, count: int) -> ApiError | None:
        document = pod_from(replica_set.spec.template, REPLICA_SETS, replica_set)
        return await create_pods(
            self._client, self._recorder, self._created, REPLICA_SETS, replica_set, document, count
        )

    async def _delete(self, replica_set: ReplicaSet, active: Sequence[Pod], count: int) -> ApiError | None:
        chosen = deletion_order(active)[: min(count, MOST_AT_ONCE)]

        async def end(pod: Pod) -> None:
            # Recorded before the delete is sent: a cache event may start the next count before the answer comes.
            going = self._going.setdefault(replica_set.metadata.key, set())
            going.add(pod.metadata.uid)
            try:
                await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
            except NotFound:
                return
            except ApiError as error:
                going.discard(pod.metadata.uid)
                message = f"Error deleting: {server_message(error)}"
                self._recorder.event(REPLICA_SETS, replica_set, "FailedDelete", message, type="Warning")
                raise
            self._recorder.event(REPLICA_SETS, replica_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

        outcomes = await asyncio.gather(*(end(pod) for pod in chosen), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, ApiError):
                return outcome
            if isinstance(outcome, BaseException):
                raise outcome
        return None

    def _next_check(self, replica_set: ReplicaSet, active: Sequence[Pod], now: datetime) -> float | None:
        waits = [pod.available_in(replica_set.spec.minReadySeconds, now) for pod in active]
        coming = [wait for wait in waits if wait is not None and wait > 0]
        return min(coming) + 0.05 if coming else None


def _failure_condition(error: ApiError | None) -> Condition | None:
    if error is None:
        return None
    reason = "FailedDelete" if error.message.startswith("delete ") else "FailedCreate"
    return Condition(type=FAILURE, status="True", reason=reason, message=server_message(error))
