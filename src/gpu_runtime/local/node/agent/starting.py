"""Starts one run of a container: back-off, image, configuration and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.local.kinds.container import Container
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.services import Service
from gpu_runtime.local.kinds.storage import CONFIG_MAPS, SECRETS
from gpu_runtime.local.node.agent import environment
from gpu_runtime.local.node.agent.backoff import Backoff, go_duration
from gpu_runtime.local.node.agent.container_spec import container_spec
from gpu_runtime.local.node.agent.environment import ConfigError
from gpu_runtime.local.node.agent.images import Images
from gpu_runtime.local.node.agent.memory import PodMemory
from gpu_runtime.local.node.agent.volumes import NotReady, Volumes
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.specs import PodSandbox

CONFIG_RETRY_SECONDS = 2.0
RecordEvent = Callable[[Pod, str, str, str], None]


@dataclass(frozen=True)
class Starter:
    """Starts containers. When one cannot start, records the reason in the pod's memory."""

    client: Client
    runtime: PodRuntime
    volumes: Volumes
    images: Images
    backoff: Backoff
    services: Iterable[Service]
    host_ip: str
    allocatable: Mapping[str, str]
    now: Callable[[], float]
    event: RecordEvent

    async def start(
        self, pod: Pod, container: Container, sandbox: PodSandbox, memory: PodMemory, previous: ContainerState | None
    ) -> float | None:
        """Starts the next run; None when it was started, else the seconds after which to try again."""
        name, now = container.name, self.now()
        key = f"{pod.metadata.uid}/{name}"
        if previous is not None and (left := self.backoff.left(key, previous["finishedAt"], now)) > 0:
            return self._wait_for_backoff(pod, container, memory, key, left)
        if (refused := self._image_refused(pod, container, memory, now)) is not None:
            return refused
        latest = sandbox.latest(name)
        # A run without a state was requested by an agent that was killed before the start: start that run.
        attempt = 0 if latest is None else latest.attempt + (latest.state is not None)
        try:
            variables = await self._variables(pod, container, sandbox)
            places = await self.volumes.provide(
                pod, self.runtime.files(pod.metadata.uid).path / "volumes", sandbox.address, self.host_ip
            )
            spec = container_spec(pod, container, attempt, variables, places)
        except (ConfigError, NotReady) as error:
            reason = error.reason if isinstance(error, ConfigError) else ConfigError.reason
            if memory.now_waits(name, reason, str(error)):
                self._record_image(pod, container)
                self.event(pod, "Warning", "Failed", f"Error: {error}")
            return CONFIG_RETRY_SECONDS
        if previous is not None:
            self.backoff.tried(key, previous["finishedAt"], now)
        state = await self.runtime.start_container(pod.metadata.uid, spec)
        self._record_start(pod, container, memory, state)
        return None

    def _wait_for_backoff(self, pod: Pod, container: Container, memory: PodMemory, key: str, left: float) -> float:
        whole = go_duration(self.backoff.delay(key))
        message = f"back-off {whole} restarting failed container={container.name} pod={pod}"
        if memory.now_waits(container.name, "CrashLoopBackOff", message):
            self.event(pod, "Warning", "BackOff", f"Back-off restarting failed container {container.name} in pod {pod}")
        return left

    def _image_refused(self, pod: Pod, container: Container, memory: PodMemory, now: float) -> float | None:
        refused = self.images.refusal(pod.metadata.uid, container.image, now)
        if refused is None:
            return None
        if refused.tried:
            self.event(pod, "Normal", "Pulling", f'Pulling image "{container.image}"')
            self.event(pod, "Warning", "Failed", f'Failed to pull image "{container.image}": {refused.message}')
        if memory.now_waits(container.name, refused.reason, refused.message):
            if refused.reason == "ImagePullBackOff":
                self.event(pod, "Normal", "BackOff", f'Back-off pulling image "{container.image}"')
            self.event(pod, "Warning", "Failed", f"Error: {refused.reason}")
        return refused.retry_after

    async def _variables(self, pod: Pod, container: Container, sandbox: PodSandbox) -> dict[str, str]:
        namespace = pod.metadata.namespace
        config_map_names, secret_names = environment.references(container)
        config_maps, secrets = {}, {}
        for name in config_map_names:
            try:
                config_maps[name] = await self.client.get(CONFIG_MAPS, Key(namespace, name))
            except NotFound:
                continue
        for name in secret_names:
            try:
                secrets[name] = await self.client.get(SECRETS, Key(namespace, name))
            except NotFound:
                continue
        return environment.variables(
            pod,
            container,
            config_maps=config_maps,
            secrets=secrets,
            services=[service for service in self.services if service.metadata.namespace == namespace],
            pod_ip=self.host_ip if pod.spec.hostNetwork else sandbox.address,
            host_ip=self.host_ip,
            allocatable=self.allocatable,
        )

    def _record_start(self, pod: Pod, container: Container, memory: PodMemory, state: ContainerState) -> None:
        self._record_image(pod, container)
        self.event(pod, "Normal", "Created", "Container created")
        if state["reason"] == "StartError":
            self.event(pod, "Warning", "Failed", f"Error: {state['message']}")
            memory.now_waits(container.name, "RunContainerError", state["message"])
        else:
            self.event(pod, "Normal", "Started", "Container started")
            memory.waiting.pop(container.name, None)

    def _record_image(self, pod: Pod, container: Container) -> None:
        message = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
        self.event(pod, "Normal", "Pulled", message)
