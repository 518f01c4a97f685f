"""Computes the status of Pods and writes it to the API server when it differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from gpu_runtime.api.meta.object import wire
from gpu_runtime.kube.client import Client
from gpu_runtime.local.kinds.pods import PODS, Pod, PodStatus
from gpu_runtime.local.node.agent.logs import log_tail
from gpu_runtime.local.node.agent.memory import PodMemory
from gpu_runtime.local.node.agent.status import TERMINAL, Observed, pod_status
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.specs import PodSandbox


@dataclass
class Reporter:
    """Writes Pod statuses; `written` is what the server answered last, which the cache may not have yet."""

    client: Client
    runtime: PodRuntime
    host_ip: str
    written: dict[str, Pod] = field(default_factory=dict)

    def is_over(self, pod: Pod, memory: PodMemory) -> bool:
        """Whether the pod has ended by itself."""
        return self._status(pod, memory, ended=False).phase in TERMINAL

    async def report(self, pod: Pod, memory: PodMemory, *, ended: bool = False) -> None:
        """Writes the status when it differs; `ended`: nothing of the pod runs or will run again."""
        status = self._status(pod, memory, ended=ended)
        if status == pod.status:
            return
        document = wire(status)
        for name in ("reason", "message", "initContainerStatuses"):
            document.setdefault(name, None)
        meta = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resourceVersion}
        patch = {"metadata": meta, "status": document}
        self.written[pod.metadata.uid] = await self.client.patch(PODS, pod.metadata.key, patch, subresource="status")

    def _status(self, pod: Pod, memory: PodMemory, *, ended: bool) -> PodStatus:
        return pod_status(pod, self._observed(pod, memory, ended), host_ip=self.host_ip, now=datetime.now(UTC))

    def _with_log_tails(self, pod: Pod, sandbox: PodSandbox | None) -> PodSandbox | None:
        """Adds the termination messages of containers that fall back to their log."""
        everyone = (*pod.spec.initContainers, *pod.spec.containers)
        chatty = {each.name for each in everyone if each.terminationMessagePolicy == "FallbackToLogsOnError"}
        if sandbox is None or not chatty:
            return sandbox
        runs = []
        for run in sandbox.runs:
            state = run.state
            if run.name in chatty and state and state["exitCode"] > 0 and not state["message"]:
                words = log_tail(self.runtime.files(pod.metadata.uid).log(run.name, run.attempt))
                runs.append(msgspec.structs.replace(run, state={**state, "message": words}))
            else:
                runs.append(run)
        return msgspec.structs.replace(sandbox, runs=runs)

    def _observed(self, pod: Pod, memory: PodMemory, ended: bool) -> Observed:
        sandbox = self._with_log_tails(pod, self.runtime.get(pod.metadata.uid))
        current = {run.name: run.attempt for run in sandbox.runs} if sandbox else {}
        for run in sandbox.runs if sandbox else ():
            current[run.name] = max(current[run.name], run.attempt)
        verdicts = {name: memory.verdicts.get((name, attempt)) for name, attempt in current.items()}
        return Observed(
            sandbox=sandbox,
            waiting=memory.waiting,
            started=frozenset(name for name, each in verdicts.items() if each and each.started),
            ready=frozenset(name for name, each in verdicts.items() if each and each.ready),
            failure=memory.failure,
            ended=ended,
        )
