"""The lifecycle hooks of containers: postStart and preStop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import aiohttp

from gpu_runtime.local.kinds.container import Container, Handler
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.node.agent.memory import RunKey
from gpu_runtime.local.node.agent.probes import named_port
from gpu_runtime.local.node.agent.starting import RecordEvent
from gpu_runtime.local.node.runtime import PodRuntime, UnknownPod
from gpu_runtime.local.node.shim_client import ShimGone, ShimRefused
from gpu_runtime.local.node.specs import ContainerRun

HOOK_SECONDS = 60.0
MINIMUM_GRACE_SECONDS = 2.0


@dataclass
class Hooks:
    """Runs postStart and preStop handlers; a container's stop waits for its preStop within the grace period."""

    runtime: PodRuntime
    session: aiohttp.ClientSession
    tasks: asyncio.TaskGroup
    event: RecordEvent
    stopping: dict[tuple[str, RunKey], asyncio.Task[None]] = field(default_factory=dict)

    async def after_start(self, pod: Pod, container: Container, run: ContainerRun) -> None:
        handler = container.lifecycle.postStart if container.lifecycle else None
        if handler and not await self._handle(pod, container, run, handler, HOOK_SECONDS):
            self.event(pod, "Warning", "FailedPostStartHook", "PostStartHook failed")
            await self.stop(pod, container, run, float(pod.spec.terminationGracePeriodSeconds))

    async def stop(self, pod: Pod, container: Container, run: ContainerRun, grace: float) -> None:
        """Asks the container to stop, after its preStop hook if it has one. Called again, it can shorten the grace."""
        handler = container.lifecycle.preStop if container.lifecycle else None
        if handler is None:
            await self._ask_to_stop(pod, run, grace)
            return
        key = (pod.metadata.uid, (run.name, run.attempt))
        if key not in self.stopping:
            # A key stays until its pod is gone: a hook must not run again while the program ends.
            self.stopping = {known: task for known, task in self.stopping.items() if self.runtime.get(known[0])}
            self.stopping[key] = self.tasks.create_task(self._hook_then_stop(pod, container, run, handler, grace))
        elif self.stopping[key].done():
            await self._ask_to_stop(pod, run, grace)

    async def _hook_then_stop(
        self, pod: Pod, container: Container, run: ContainerRun, handler: Handler, grace: float
    ) -> None:
        began = time.monotonic()
        if not await self._handle(pod, container, run, handler, grace):
            self.event(pod, "Warning", "FailedPreStopHook", "PreStopHook failed")
        left = grace - (time.monotonic() - began)
        await self._ask_to_stop(pod, run, max(left, MINIMUM_GRACE_SECONDS))

    async def _ask_to_stop(self, pod: Pod, run: ContainerRun, grace: float) -> None:
        with contextlib.suppress(UnknownPod, ShimGone, ShimRefused):  # it has ended already
            await self.runtime.ask_to_stop(pod.metadata.uid, run.name, run.attempt, grace)

    async def _handle(
        self, pod: Pod, container: Container, run: ContainerRun, handler: Handler, seconds: float
    ) -> bool:
        try:
            if handler.exec:
                answer = await self.runtime.execute(
                    pod.metadata.uid, run.name, run.attempt, handler.exec.command, seconds
                )
                return answer[0] == 0
            if handler.httpGet:
                sandbox = self.runtime.get(pod.metadata.uid)
                host = handler.httpGet.host or (sandbox.address if sandbox else "")
                url = f"{handler.httpGet.scheme.lower()}://{host}:{named_port(container, handler.httpGet.port)}"
                limit = aiohttp.ClientTimeout(total=seconds)
                async with self.session.get(url + handler.httpGet.path, timeout=limit, ssl=False) as answered:
                    return answered.status < 400
            if handler.sleep:
                await asyncio.sleep(min(seconds, handler.sleep.seconds))
        except (UnknownPod, ShimGone, ShimRefused, aiohttp.ClientError, OSError, ValueError):
            return False
        return True
