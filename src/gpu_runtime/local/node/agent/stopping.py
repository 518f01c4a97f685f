"""Ends a pod's containers in order and frees what the pod held."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.node.agent.hooks import MINIMUM_GRACE_SECONDS, Hooks
from gpu_runtime.local.node.agent.memory import PodMemory
from gpu_runtime.local.node.agent.starting import RecordEvent
from gpu_runtime.local.node.runtime import PodRuntime


@dataclass(frozen=True)
class Stopper:
    """Asks containers to stop, again at every sync, until none runs any more."""

    runtime: PodRuntime
    hooks: Hooks
    event: RecordEvent

    async def stopping(self, pod: Pod, memory: PodMemory, grace: float) -> bool:
        """Asks running containers to stop. False when none runs any more and the sandbox is gone."""
        sandbox = self.runtime.get(pod.metadata.uid)
        running = [run for run in sandbox.runs if run.running] if sandbox and sandbox.alive else []
        containers = {each.name: each for each in (*pod.spec.initContainers, *pod.spec.containers)}
        for run in running:
            if memory.first_time("stop", run.name, str(run.attempt)):
                self.event(pod, "Normal", "Killing", f"Stopping container {run.name}")
            await self.hooks.stop(pod, containers[run.name], run, max(float(grace), MINIMUM_GRACE_SECONDS))
        if running:
            return True
        await self.stop_sandbox(pod, memory)
        return False

    async def stop_sandbox(self, pod: Pod, memory: PodMemory | None) -> None:
        """Ends whatever is left at once; logs and exit codes stay."""
        if memory:
            memory.stop_probing()
        if self.runtime.get(pod.metadata.uid):
            await self.runtime.stop_pod(pod.metadata.uid)
