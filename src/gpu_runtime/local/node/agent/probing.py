"""Runs the probes of a container as long as it runs, and wakes the reconciler when a result changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from gpu_runtime.local.kinds.container import Container, Probe
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.node.agent.memory import PodMemory
from gpu_runtime.local.node.agent.probes import Kind, Outcome, Prober, Verdicts
from gpu_runtime.local.node.agent.status import container_id
from gpu_runtime.local.node.runtime import PodRuntime, UnknownPod
from gpu_runtime.local.node.shim_client import ShimGone, ShimRefused
from gpu_runtime.local.node.specs import ContainerRun, PodSandbox

Warn = Callable[[Pod, str, str], None]


@dataclass(frozen=True)
class Probing:
    """Starts probes; `wake(pod)` is called when a verdict has changed, `warn` says what a try found."""

    runtime: PodRuntime
    session: aiohttp.ClientSession
    tasks: asyncio.TaskGroup
    wake: Callable[[Pod], None]
    warn: Warn

    def ensure(
        self, pod: Pod, container: Container, run: ContainerRun, sandbox: PodSandbox, memory: PodMemory
    ) -> Verdicts:
        """Starts the probes of this run if they do not run yet. Returns its verdicts."""
        key = (run.name, run.attempt)
        if key in memory.verdicts:
            return memory.verdicts[key]
        memory.stop_probing(name=run.name)
        verdicts = memory.verdicts[key] = _first_verdicts(pod, container, run)
        if container.startupProbe or container.readinessProbe or container.livenessProbe:
            task = self.tasks.create_task(self._probe(pod, container, run, sandbox.address, verdicts))
            memory.probing[key] = [task]
        return verdicts

    async def _probe(self, pod: Pod, container: Container, run: ContainerRun, address: str, verdicts: Verdicts) -> None:
        if container.startupProbe and not verdicts.started:
            await self._run(pod, container, run, address, verdicts, "startup", container.startupProbe)
        async with asyncio.TaskGroup() as group:
            if container.readinessProbe:
                group.create_task(
                    self._run(pod, container, run, address, verdicts, "readiness", container.readinessProbe)
                )
            if container.livenessProbe:
                group.create_task(
                    self._run(pod, container, run, address, verdicts, "liveness", container.livenessProbe)
                )

    async def _run(
        self,
        pod: Pod,
        container: Container,
        run: ContainerRun,
        address: str,
        verdicts: Verdicts,
        kind: Kind,
        probe: Probe,
    ) -> None:
        uid = pod.metadata.uid

        async def execute(command: list[str], timeout: float) -> tuple[int | None, str]:
            try:
                return await self.runtime.execute(uid, run.name, run.attempt, command, timeout)
            except (UnknownPod, ShimGone, ShimRefused) as error:
                raise ValueError(str(error)) from error

        def changed(kind: Kind, value: bool) -> None:
            verdicts.take(kind, value)
            self.wake(pod)

        def failed(kind: Kind, outcome: Outcome) -> None:
            words = "errored and resulted in unknown state" if outcome.error else "failed"
            self.warn(pod, "Unhealthy", f"{kind.capitalize()} probe {words}: {outcome.output}")

        started = run.state["startedAt"] if run.state else 0.0
        await Prober(container, kind, probe, address, execute).run(started, self.session, changed, failed)


def _first_verdicts(pod: Pod, container: Container, run: ContainerRun) -> Verdicts:
    """The verdicts before the first try. A run that an earlier agent reported as ready stays ready."""
    verdicts = Verdicts.awaited(container)
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        if status.name == container.name and status.containerID == container_id(pod.metadata.uid, run):
            verdicts.started = verdicts.started or status.started is True
            verdicts.readiness = verdicts.readiness or status.ready
    return verdicts
