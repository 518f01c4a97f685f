"""The table row of a pod: how many containers are ready, and why the others are not."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.table.durations import since

NONE = "<none>"


def pod_conditions(pod: Object) -> list[Object]:
    """The row condition of a finished pod, by which kubectl can leave it out."""
    phase = pod.get("status", {}).get("phase")
    texts = {
        "Succeeded": "The pod has completed successfully.",
        "Failed": "The pod failed.",
    }
    if phase not in texts:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": texts[phase]}]


class _Progress:
    """The summary of the statuses of a pod's containers."""

    def __init__(self, pod: Object) -> None:
        spec, status = pod["spec"], pod.get("status", {})
        self.reason: str = status.get("reason") or status.get("phase", "")
        self.ready = 0
        self.restarts = 0
        self.last = ""
        sidecars = {one["name"] for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or []) + len(sidecars)
        conditions = status.get("conditions") or []
        if any(one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated" for one in conditions):
            self.reason = "SchedulingGated"
        count = len(spec.get("initContainers") or [])
        starting = self._initialize(status.get("initContainerStatuses") or [], sidecars, count)
        if not starting or _true(conditions, "Initialized"):
            self._run(status.get("containerStatuses") or [], sidecars, status, conditions)

    def _initialize(self, statuses: list[Object], sidecars: set[str], count: int) -> bool:
        for at, one in enumerate(statuses):
            self._count(one)
            state = one.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting") or {}
            if ended is not None and not ended.get("exitCode"):
                continue
            if one["name"] in sidecars and one.get("started"):
                self.ready += bool(one.get("ready"))
                continue
            if ended is not None:
                self.reason = "Init:" + _ended(ended)
            elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
                self.reason = "Init:" + waiting["reason"]
            else:
                self.reason = f"Init:{at}/{count}"
            return True
        return False

    def _run(self, statuses: list[Object], sidecars: set[str], status: Object, conditions: list[Object]) -> None:
        self.restarts, self.last = 0, ""
        for one in status.get("initContainerStatuses") or []:
            if one["name"] in sidecars:
                self._count(one)
        running, failed = False, ""
        for one in reversed(statuses):
            self._count(one)
            state = one.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting") or {}
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif ended is not None:
                self.reason = _ended(ended)
                failed = self.reason if ended.get("exitCode") else failed
            elif one.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _true(conditions, "Ready"):
                self.reason = "Running"
            elif failed:
                self.reason = failed
            elif running:
                self.reason = "NotReady"

    def _count(self, one: Object) -> None:
        self.restarts += one.get("restartCount", 0)
        ended = (one.get("lastState") or {}).get("terminated") or {}
        self.last = max(self.last, ended.get("finishedAt") or "")


def _ended(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _true(conditions: list[Object], kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    progress = _Progress(pod)
    reason = progress.reason
    if meta.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    restarts = str(progress.restarts)
    if progress.restarts and progress.last:
        restarts = f"{progress.restarts} ({since(progress.last, now)} ago)"
    gates = spec.get("readinessGates") or []
    passed = sum(_true(status.get("conditions") or [], gate["conditionType"]) for gate in gates)
    addresses = status.get("podIPs") or []
    return [
        meta["name"],
        f"{progress.ready}/{progress.total}",
        reason,
        restarts,
        since(meta.get("creationTimestamp"), now),
        addresses[0]["ip"] if addresses else NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]
