"""Drives each Pod of the node toward its spec, one sync at a time, and reports its status."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.kube.store import Delta, Store, version_number
from gpu_runtime.local.kinds.container import Container
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.node.agent import volumes as pod_volumes
from gpu_runtime.local.node.agent.container_spec import sandbox_spec
from gpu_runtime.local.node.agent.hooks import MINIMUM_GRACE_SECONDS, Hooks
from gpu_runtime.local.node.agent.memory import PodMemory
from gpu_runtime.local.node.agent.probing import Probing
from gpu_runtime.local.node.agent.reporting import Reporter
from gpu_runtime.local.node.agent.starting import RecordEvent, Starter
from gpu_runtime.local.node.agent.status import TERMINAL, Failure, should_restart
from gpu_runtime.local.node.agent.stopping import Stopper
from gpu_runtime.local.node.agent.volumes import NotReady, Volumes
from gpu_runtime.local.node.gpus import NotEnoughGpus
from gpu_runtime.local.node.network import NoAddress
from gpu_runtime.local.node.runtime import PodRuntime, UnknownPod
from gpu_runtime.local.node.shim_client import ShimGone, ShimRefused
from gpu_runtime.local.node.specs import ContainerRun, PodSandbox
from gpu_runtime.local.node.zygote_client import SandboxFailed

MOUNT_RETRY_SECONDS = 1.0
REFRESH_SECONDS = 60.0
LOST_RETRY_SECONDS = 0.05


class Wait(Exception):
    """Nothing more can be done for this pod now; sync again after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass
class PodKeeper:
    """The reconciler of the node's Pods."""

    client: Client
    runtime: PodRuntime
    store: Store[Pod]
    volumes: Volumes
    starter: Starter
    probing: Probing
    hooks: Hooks
    stopper: Stopper
    reporter: Reporter
    event: RecordEvent
    host_ip: str
    memories: dict[str, PodMemory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store.subscribe(self._changed)

    def _changed(self, delta: Delta[Pod]) -> None:
        """Forgets a deleted Pod that never had a sandbox; others are forgotten when their sandbox is removed."""
        if delta.new is None and delta.old and self.runtime.get(delta.old.metadata.uid) is None:
            self.memories.pop(delta.old.metadata.uid, None)
            self.reporter.written.pop(delta.old.metadata.uid, None)

    async def reconcile(self, key: Key) -> Result:
        pod = self._newest(key)
        await self._end_others(key, pod)
        if pod is None:
            return Result()
        if pod.metadata.deletionTimestamp is not None:
            return await self._terminate(pod)
        if pod.status.phase in TERMINAL:
            await self.stopper.stop_sandbox(pod, self.memories.get(pod.metadata.uid))
            return Result()
        memory = self.memories.setdefault(pod.metadata.uid, PodMemory())
        if memory.failure is None and (overdue := _overdue(pod)) is not None:
            memory.failure = overdue
            self.event(pod, "Normal", overdue.reason, overdue.message)
        again: float | None = None
        if memory.failure is None:
            try:
                again = await self._advance(pod, memory)
            except Wait as wait:
                again = wait.seconds
            except (ShimGone, UnknownPod):
                again = LOST_RETRY_SECONDS  # the sandbox ended meanwhile: the next sync makes another
            except ShimRefused as error:
                self.event(pod, "Warning", "Failed", f"Error: {error}")
                again = MOUNT_RETRY_SECONDS
        if memory.failure is not None and await self.stopper.stopping(
            pod, memory, pod.spec.terminationGracePeriodSeconds
        ):
            return Result()
        if self.reporter.is_over(pod, memory):
            await self.stopper.stop_sandbox(pod, memory)  # before the report: its readers may use what the pod held
            await self.reporter.report(pod, memory, ended=True)
        else:
            await self.reporter.report(pod, memory)
        return Result(_soonest(again, _until_overdue(pod), REFRESH_SECONDS if pod_volumes.refreshed(pod) else None))

    def _newest(self, key: Key) -> Pod | None:
        """The cached Pod, or the result of our last write when the cache is behind it."""
        pod = self.store.get(key)
        if pod is None:
            return None
        ours = self.reporter.written.get(pod.metadata.uid)
        if ours and version_number(ours.metadata.resourceVersion) > version_number(pod.metadata.resourceVersion):
            return ours
        return pod

    async def _end_others(self, key: Key, pod: Pod | None) -> None:
        """Ends what still runs for earlier Pods of this name."""
        for uid in self.runtime.called(key.namespace, key.name):
            if pod is None or uid != pod.metadata.uid:
                await self._forget(uid)

    async def _forget(self, uid: str) -> None:
        if memory := self.memories.pop(uid, None):
            memory.stop_probing()
        self.reporter.written.pop(uid, None)
        self.starter.images.forget(uid)
        self.starter.backoff.forget(f"{uid}/")
        await self.runtime.remove_pod(uid)

    def running(self) -> list[tuple[Pod, Path]]:
        """The pods that write to this machine's disk, with their directories."""
        alive = {sandbox.spec.uid for sandbox in self.runtime.pods() if sandbox.alive}
        return [(pod, self.runtime.files(pod.metadata.uid).path) for pod in self.store if pod.metadata.uid in alive]

    def evict(self, pod: Pod, failure: Failure) -> None:
        """Marks a pod as failed; the next sync ends it."""
        memory = self.memories.setdefault(pod.metadata.uid, PodMemory())
        if memory.failure is None:
            memory.failure = failure
            self.event(pod, "Warning", failure.reason, failure.message)
            self.probing.wake(pod)

    # -- toward running

    async def _advance(self, pod: Pod, memory: PodMemory) -> float | None:
        """Does what can be done now. Returns the seconds until there is more to do, if that is known."""
        sandbox = await self._sandbox(pod, memory)
        if sandbox is None or not sandbox.alive:
            return None
        begun = any(_fresh(sandbox, each.name) for each in pod.spec.containers)
        for container in pod.spec.initContainers:
            if begun and not container.sidecar:
                continue
            ready, again = await self._init(pod, container, sandbox, memory)
            if not ready:
                return again
        waits = [await self._keep_running(pod, container, sandbox, memory) for container in pod.spec.containers]
        await self._refresh_volumes(pod, sandbox)
        return _soonest(*waits)

    async def _sandbox(self, pod: Pod, memory: PodMemory) -> PodSandbox | None:
        uid = pod.metadata.uid
        sandbox = self.runtime.get(uid)
        if sandbox and sandbox.alive:
            return sandbox
        if sandbox and sandbox.runs:
            await self.runtime.stop_pod(uid)
            memory.stop_probing()
            sandbox = self.runtime.get(uid)
            if sandbox and _nothing_to_restart(pod, sandbox):
                return sandbox
            self.event(pod, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        folder = self.runtime.files(uid).path / "volumes"
        try:
            await self.volumes.provide(pod, folder, "", self.host_ip)
            return await self.runtime.run_pod(sandbox_spec(pod))
        except NotReady as error:
            if memory.first_time("mount", str(error)):
                self.event(pod, "Warning", "FailedMount", str(error))
            raise Wait(MOUNT_RETRY_SECONDS) from error
        except NotEnoughGpus as error:
            if self._some_are_ending():
                raise Wait(0.1) from error
            memory.failure = Failure(
                "UnexpectedAdmissionError",
                "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu."
                f" {error}, which is unexpected",
            )
            return None
        except (SandboxFailed, NoAddress, OSError) as error:
            self.event(pod, "Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            raise Wait(MOUNT_RETRY_SECONDS) from error

    def _some_are_ending(self) -> bool:
        """Whether a pod that nobody wants any more still holds devices: they are about to be free."""
        wanted = {pod.metadata.uid for pod in self.store if pod.status.phase not in TERMINAL}
        return any(sandbox.gpus and sandbox.spec.uid not in wanted for sandbox in self.runtime.pods())

    async def _init(
        self, pod: Pod, container: Container, sandbox: PodSandbox, memory: PodMemory
    ) -> tuple[bool, float | None]:
        """Whether the next container may start."""
        if container.sidecar:
            again = await self._keep_running(pod, container, sandbox, memory)
            run = _fresh(self.runtime.get(pod.metadata.uid) or sandbox, container.name)
            verdicts = memory.verdicts.get((run.name, run.attempt)) if run else None
            return bool(verdicts and verdicts.started), again
        run = _fresh(sandbox, container.name)
        if run is None:
            return False, await self._start(pod, container, sandbox, memory)
        state = run.state
        if state is None or state["status"] == "running":
            return False, None
        if state["exitCode"] and should_restart(pod, container, state["exitCode"]):
            return False, await self.starter.start(pod, container, sandbox, memory, state)
        return state["exitCode"] == 0, None

    async def _keep_running(
        self, pod: Pod, container: Container, sandbox: PodSandbox, memory: PodMemory
    ) -> float | None:
        run = _fresh(sandbox, container.name)
        if run is None:
            earlier = sandbox.latest(container.name)
            if earlier and earlier.state and not should_restart(pod, container, earlier.state["exitCode"]):
                return None
            return await self._start(pod, container, sandbox, memory)
        state = run.state
        if state is None:
            return await self._start(pod, container, sandbox, memory)
        if state["status"] == "running":
            await self._mind(pod, container, run, sandbox, memory)
            return None
        memory.stop_probing(name=container.name)
        if should_restart(pod, container, state["exitCode"]):
            return await self._start(pod, container, sandbox, memory, again=run)
        return None

    async def _start(
        self, pod: Pod, container: Container, sandbox: PodSandbox, memory: PodMemory, again: ContainerRun | None = None
    ) -> float | None:
        wait = await self.starter.start(pod, container, sandbox, memory, again.state if again else None)
        if wait is not None:
            return wait
        now = self.runtime.get(pod.metadata.uid)
        run = now.latest(container.name) if now else None
        if now is None or run is None or run.state is None:
            return None
        if run.state["status"] == "exited":
            return 0.0  # it ended or did not start: the next sync goes on
        await self.hooks.after_start(pod, container, run)
        self.probing.ensure(pod, container, run, now, memory)
        return None

    async def _mind(
        self, pod: Pod, container: Container, run: ContainerRun, sandbox: PodSandbox, memory: PodMemory
    ) -> None:
        """Probes a running container and ends it when its startup or liveness probe has failed."""
        verdicts = self.probing.ensure(pod, container, run, sandbox, memory)
        if verdicts.failed is None or not memory.first_time("probe", run.name, str(run.attempt)):
            return
        message = f"Container {run.name} failed {verdicts.failed} probe"
        if pod.spec.restartPolicy != "Never":
            message += ", will be restarted"
        self.event(pod, "Normal", "Killing", message)
        probe = container.startupProbe if verdicts.failed == "startup" else container.livenessProbe
        own = probe.terminationGracePeriodSeconds if probe else None
        grace = pod.spec.terminationGracePeriodSeconds if own is None else own
        await self.hooks.stop(pod, container, run, max(float(grace), MINIMUM_GRACE_SECONDS))

    async def _refresh_volumes(self, pod: Pod, sandbox: PodSandbox) -> None:
        if pod_volumes.refreshed(pod):
            folder = self.runtime.files(pod.metadata.uid).path / "volumes"
            try:
                await self.volumes.provide(pod, folder, sandbox.address, self.host_ip)
            except NotReady:
                return  # the running pod keeps what it has

    # -- toward the end

    async def _terminate(self, pod: Pod) -> Result:
        """Ends the containers of a deleted Pod in order, then removes the object."""
        uid = pod.metadata.uid
        memory = self.memories.setdefault(uid, PodMemory())
        grace = pod.metadata.deletionGracePeriodSeconds
        if await self.stopper.stopping(pod, memory, pod.spec.terminationGracePeriodSeconds if grace is None else grace):
            await self.reporter.report(pod, memory)
            return Result()
        try:
            await self.reporter.report(pod, memory, ended=True)
            await self.client.delete(PODS, pod.metadata.key, uid=uid, grace_seconds=0)
        except (NotFound, Conflict):
            # The Pod is gone, or another Pod has its name by now; the cache will show it.
            pass
        await self._forget(uid)
        return Result()


def _fresh(sandbox: PodSandbox, name: str) -> ContainerRun | None:
    """The newest run of a container, if it belongs to this sandbox and not to one before."""
    run = sandbox.latest(name)
    if run is None or run.state is None or run.running:
        return run
    return run if run.state["finishedAt"] >= sandbox.createdAt else None


def _nothing_to_restart(pod: Pod, sandbox: PodSandbox) -> bool:
    for container in pod.spec.containers:
        run = sandbox.latest(container.name)
        if run is None or run.state is None or should_restart(pod, container, run.state["exitCode"]):
            return False
    return True


def _overdue(pod: Pod) -> Failure | None:
    left = _until_overdue(pod)
    if left is None or left > 0:
        return None
    return Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def _until_overdue(pod: Pod) -> float | None:
    if pod.spec.activeDeadlineSeconds is None or pod.status.startTime is None:
        return None
    return pod.status.startTime.timestamp() + pod.spec.activeDeadlineSeconds - time.time()


def _soonest(*times: float | None) -> float | None:
    return min((seconds for seconds in times if seconds is not None), default=None)
