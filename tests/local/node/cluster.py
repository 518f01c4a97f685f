"""A node agent on an API server, and pods written as a person writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.pods import PODS, ContainerStatus, Pod
from gpu_runtime.local.node.agent.agent import NodeOptions, node_agent
from gpu_runtime.local.node.agent.logs import PodLogs, entry_text
from gpu_runtime.local.node.runtime import PodRuntime


class Anything(msgspec.Struct, kw_only=True):
    """Any object, as far as a test looks at it."""

    metadata: ObjectMeta
    involvedObject: dict[str, Any] = {}
    reason: str = ""
    message: str = ""
    type: str = ""
    status: dict[str, Any] = {}
    spec: dict[str, Any] = {}


def resource(kind: str, plural: str, group: str = "", *, namespaced: bool = True) -> Resource[Anything]:
    return Resource(group, "v1", kind, plural, Anything, namespaced=namespaced)


CONFIG_MAPS = resource("ConfigMap", "configmaps")
SECRETS = resource("Secret", "secrets")
EVENTS = resource("Event", "events")
NODES = resource("Node", "nodes", namespaced=False)


@dataclass
class Cluster:
    """One namespace of an API server with one node, which is ours."""

    client: Client
    namespace: str
    node: str
    kubeconfig: Path
    runtime: PodRuntime = field(init=False)

    @asynccontextmanager
    async def agent(self, **options: Any) -> AsyncIterator[None]:
        """A running agent; back-off is short, so that a test sees its end."""
        settings = {"missing_images": ["missing*"], "backoff_seconds": 0.5, **options}
        async with node_agent(self.client, self.runtime, NodeOptions(name=self.node, schedulable=False, **settings)):
            yield

    async def create(self, kind: Resource[Any], name: str, **fields: Any) -> None:
        metadata = {"name": name, "namespace": self.namespace, **fields.pop("metadata", {})}
        await self.client.create(kind, {"metadata": metadata, **fields})

    async def run(self, name: str, *containers: dict[str, Any], **spec: Any) -> None:
        """A Pod bound to our node; a container without a name is `main`."""
        named = [{"name": "main", "image": "machine", **container} for container in containers]
        labels = spec.pop("labels", {})
        document = {
            "nodeName": self.node,
            "containers": named,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            **spec,
        }
        await self.create(PODS, name, metadata={"labels": labels}, spec=document)

    async def pod(self, name: str) -> Pod:
        return await self.client.get(PODS, Key(self.namespace, name))

    async def until(self, name: str, holds: Callable[[Pod], object], *, within: float = 60) -> Pod:
        """The Pod once it is as wanted."""

        async def probe() -> Pod | None:
            pod = await self.pod(name)
            assert holds(pod), pod.status
            return pod

        found = await eventually(probe, within=within, what=f"pod {name}")
        assert found
        return found

    async def until_phase(self, name: str, phase: str) -> Pod:
        return await self.until(name, lambda pod: pod.status.phase == phase)

    async def until_ready(self, name: str) -> Pod:
        return await self.until(name, lambda pod: conditions(pod).get("Ready") == "True")

    async def until_waiting(self, name: str, reason: str) -> ContainerStatus:
        def holds(pod: Pod) -> bool:
            return any(status.state.waiting and status.state.waiting.reason == reason for status in everyone(pod))

        pod = await self.until(name, holds)
        return next(status for status in everyone(pod) if status.state.waiting)

    async def delete(self, name: str, grace: int | None = None) -> None:
        """Asks for the deletion and waits until the Pod is gone from the server and from the machine."""
        pod = await self.pod(name)
        await self.client.delete(PODS, pod.metadata.key, grace_seconds=grace)
        await eventually(lambda: self.gone(name), what=f"pod {name} gone")
        await eventually(lambda: self.runtime.get(pod.metadata.uid) is None, what="its sandbox gone")

    async def gone(self, name: str) -> bool:
        try:
            await self.pod(name)
        except NotFound:
            return True
        return False

    async def events(self, name: str) -> list[tuple[str, str]]:
        listing = await self.client.list(Query(EVENTS, namespace=self.namespace))
        return [(each.reason, each.message) for each in listing.items if each.involvedObject.get("name") == name]

    async def until_event(self, name: str, reason: str, words: str) -> None:
        async def probe() -> bool:
            seen = await self.events(name)
            assert any(kind == reason and words in message for kind, message in seen), seen
            return True

        await eventually(probe, what=f"event {reason}: {words}")

    def log(self, pod: Pod, container: str = "main", attempt: int = 0) -> list[str]:
        path = self.runtime.files(pod.metadata.uid).log(container, attempt)
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [entry_text(line, timestamps=False).decode().rstrip("\n") for line in lines]

    def logs(self) -> PodLogs:
        return PodLogs(self.runtime.data_dir, poll_seconds=0.01)


def conditions(pod: Pod) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod.status.conditions}


def everyone(pod: Pod) -> list[ContainerStatus]:
    return [*pod.status.initContainerStatuses, *pod.status.containerStatuses]


def main(pod: Pod) -> ContainerStatus:
    found = [status for status in pod.status.containerStatuses if status.name == "main"]
    assert found, "no status yet"
    return found[0]


def sh(script: str, **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"command": ["sh", "-c", script], **fields}
