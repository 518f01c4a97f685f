"""The scheduling loop: tries every waiting pod, in order, after each change that may matter."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Patch
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import Conflict, KubeError, NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.store import Delta, Store
from gpu_runtime.local.controllers.scheduler.claims import SELECTED_NODE, assess_claims
from gpu_runtime.local.controllers.scheduler.fitting import Misfit, Place, explain, explain_for_all, misfit
from gpu_runtime.local.controllers.scheduler.requests import used_by
from gpu_runtime.local.kinds.machines import Node
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.storage import CLAIMS, Claim, StorageClass

SCHEDULER = "default-scheduler"
RETRY_SECONDS = 1.0
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Decision:
    """The result for one pod: a node, or the reason why there is none."""

    node: str = ""
    problem: str = ""
    unbound: tuple[Claim, ...] = ()


def waiting_order(pods: Sequence[Pod]) -> list[Pod]:
    """The highest priority first, then the longest waiting."""
    return sorted(
        pods, key=lambda pod: (-pod.spec.priority, pod.metadata.creationTimestamp or _EPOCH, pod.metadata.name)
    )


def is_waiting(pod: Pod) -> bool:
    return (
        not pod.spec.nodeName
        and pod.metadata.deletionTimestamp is None
        and not pod.finished
        and pod.spec.schedulerName == SCHEDULER
        and not pod.spec.schedulingGates
    )


class Scheduler:
    """Decides about one pod after the other, so that nothing is given to two pods."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        pods: Store[Pod],
        nodes: Store[Node],
        claims: Store[Claim],
        classes: Store[StorageClass],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = pods
        self._nodes = nodes
        self._claims = claims
        self._classes = classes
        self._clock = clock
        self._changed = asyncio.Event()
        self._assumed: dict[str, str] = {}  # uid of a bound pod -> node, until the cache shows it
        self._reported: dict[str, str] = {}  # uid of a waiting pod -> the problem that was last reported
        self._log = structlog.get_logger("scheduler")
        for store in (nodes, claims, classes):
            store.subscribe(lambda _: self._changed.set())
        pods.subscribe(self._pod_changed)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.object
        if delta.new is None or delta.new.finished or delta.new.spec.nodeName:
            self._reported.pop(pod.metadata.uid, None)
            self._assumed.pop(pod.metadata.uid, None)
        # A status report of a running pod changes nothing for those that wait.
        before, after = delta.old, delta.new
        if after is not None and before is not None and after.spec.nodeName and before.active == after.active:
            return
        self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            if await self._round():
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._changed.set)

    async def _round(self) -> bool:
        """Tries every waiting pod. True when a request failed and is worth a retry soon."""
        waiting = [pod for pod in self._pods if is_waiting(pod) and pod.metadata.uid not in self._assumed]
        if not waiting:
            return False
        places = self._places()
        work = []
        for pod in waiting_order(waiting):
            decision = self._decide(pod, places)
            if decision.node and not decision.unbound:
                self._assumed[pod.metadata.uid] = decision.node
                places = [_with(place, pod) if place.name == decision.node else place for place in places]
            work.append(self._carry_out(pod, decision))
        return any(await asyncio.gather(*work))

    def _places(self) -> list[Place]:
        pods: dict[str, list[Pod]] = {}
        for pod in self._pods:
            node = pod.spec.nodeName or self._assumed.get(pod.metadata.uid, "")
            if node and not pod.finished:
                pods.setdefault(node, []).append(pod)
        return [
            Place(node, used_by(pods.get(node.metadata.name, ())))
            for node in self._nodes
            if node.metadata.deletionTimestamp is None
        ]

    def _decide(self, pod: Pod, places: Sequence[Place]) -> Decision:
        claims = assess_claims(pod, self._claims.get, self._classes.get)
        if claims.problem and places:
            return Decision(problem=explain_for_all(len(places), claims.problem))
        fitting, misfits = [], list[Misfit]()
        for place in places:
            found = misfit(pod, place)
            if found is None:
                fitting.append(place)
            else:
                misfits.append(found)
        if not fitting:
            return Decision(problem=explain(misfits))
        return Decision(min(place.name for place in fitting), unbound=tuple(claims.unbound))

    async def _carry_out(self, pod: Pod, decision: Decision) -> bool:
        try:
            if decision.problem:
                await self._refuse(pod, decision.problem)
            elif decision.unbound:
                await self._select(decision)
            else:
                await self._bind(pod, decision.node)
        except (NotFound, Conflict):
            self._assumed.pop(pod.metadata.uid, None)  # it changed or is gone; the watch will show it
        except KubeError as error:
            self._assumed.pop(pod.metadata.uid, None)
            self._reported.pop(pod.metadata.uid, None)
            self._log.warning("pod not placed; retrying", pod=str(pod.metadata.key), problem=str(error))
            return True
        return False

    async def _bind(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(meta.namespace, meta.name, "binding")
        await self._client.request("POST", path, body=body, subject=f"bind pod {meta.key} to {node}")
        self._recorder.event(PODS, pod, "Scheduled", f"Successfully assigned {meta.key} to {node}")

    async def _select(self, decision: Decision) -> None:
        """Writes the node to each claim that waits for its first consumer. The pod is bound after its claims."""
        for claim in decision.unbound:
            if claim.metadata.annotations.get(SELECTED_NODE) != decision.node:
                metadata = {**identity(claim.metadata), "annotations": {SELECTED_NODE: decision.node}}
                await self._client.patch(CLAIMS, claim.metadata.key, {"metadata": metadata})

    async def _refuse(self, pod: Pod, problem: str) -> None:
        uid = pod.metadata.uid
        if self._reported.get(uid) == problem:
            return
        self._reported[uid] = problem
        self._recorder.event(PODS, pod, "FailedScheduling", problem, type="Warning")
        old = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        if old is not None and (old.status, old.message) == ("False", problem):
            return
        since = old.lastTransitionTime if old is not None and old.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": problem,
            "lastProbeTime": None,
            "lastTransitionTime": since or self._clock.now().replace(microsecond=0),
            "observedGeneration": pod.metadata.generation,
        }
        patch = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
        await self._client.patch(PODS, pod.metadata.key, patch, kind=Patch.STRATEGIC, subresource="status")


def _with(place: Place, pod: Pod) -> Place:
    added = used_by([pod])
    return Place(place.node, {name: place.used.get(name, 0) + added.get(name, 0) for name in {**place.used, **added}})
