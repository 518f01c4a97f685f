"""The reconcilers at work on a real API server, seen through the fault proxy, with fake nodes that run their pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from equipment.builders import Builder
from equipment.fault_proxy import Exchange, FaultProxy
from equipment.judge.quiet import quiet
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.config import ControllerManagerSettings, StockSettings
from gpu_runtime.controllers.product_kinds import GPU_STORAGES, GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube import Client, Controller, Manager, Patch, Recorder, Resource, load_config
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock

Document = dict[str, Any]


class Anything(msgspec.Struct):
    metadata: ObjectMeta


PATHS: dict[str, Resource[Any]] = {
    "Deployment": Resource("apps", "v1", "Deployment", "deployments", Anything),
    "Pod": Resource("", "v1", "Pod", "pods", Anything),
    "Service": Resource("", "v1", "Service", "services", Anything),
    "Event": Resource("", "v1", "Event", "events", Anything),
    "ResourceQuota": Resource("", "v1", "ResourceQuota", "resourcequotas", Anything),
    "NetworkPolicy": Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", Anything),
    "StockPool": STOCK_POOLS,
    "GPUUnit": GPU_UNITS,
    "GPUStorage": GPU_STORAGES,
    "PersistentVolumeClaim": Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Anything),
    "Operation": OPERATIONS,
}


@dataclass
class World:
    """One test's namespaces and the reconcilers that run there; `client` is a person's hand, past the proxy."""

    server: ApiServer
    client: Client
    proxy: FaultProxy
    namespace: str
    stock_namespace: str
    system_namespace: str
    settings: ControllerManagerSettings = field(init=False)
    controllers: dict[str, Controller] = field(default_factory=dict)
    manager: Manager | None = None

    def __post_init__(self) -> None:
        self.settings = ControllerManagerSettings(
            installNamespace=self.system_namespace, stock=StockSettings(namespaces=(self.stock_namespace,))
        )

    @asynccontextmanager
    async def reconciling(
        self, settings: ControllerManagerSettings | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> AsyncIterator[None]:
        """The reconcilers run inside the block, and end in order with it."""
        config = load_config(self.proxy.server.kubeconfig)
        stop = asyncio.Event()
        async with Client(config, user_agent="controller") as client, asyncio.TaskGroup() as group:
            recorder = Recorder(client, "controller-manager", "test")
            manager = self.manager = Manager(client, recorder=recorder)
            self.controllers = add_controllers(manager, settings or self.settings, recorder=recorder, clock=clock)
            group.create_task(manager.run(stop))
            try:
                await asyncio.wait_for(manager.leading.wait(), 60)
                yield
            finally:
                stop.set()

    async def create(self, builder: Builder | Document) -> Document:
        document = builder.document() if isinstance(builder, Builder) else builder
        resource = PATHS[document["kind"]]
        path = resource.path(document["metadata"].get("namespace", ""))
        return await self.request("POST", path, document)

    async def read(self, kind: str, name: str, namespace: str | None = None) -> Document:
        return await self.request("GET", self._path(kind, name, namespace))

    async def find(self, kind: str, namespace: str | None = None, labels: str = "") -> list[Document]:
        resource = PATHS[kind]
        parameters = {"labelSelector": labels} if labels else {}
        body = await self.client.request(
            "GET", resource.path(namespace or self.namespace), parameters=parameters, subject=f"list {kind}"
        )
        items: list[Document] = json.loads(body)["items"]
        return items

    async def exists(self, kind: str, name: str, namespace: str | None = None) -> bool:
        return any(each["metadata"]["name"] == name for each in await self.find(kind, namespace))

    async def change(
        self, kind: str, name: str, patch: Document, *, subresource: str = "", namespace: str = ""
    ) -> None:
        """What a person does with `kubectl patch --type merge`."""
        await self.client.patch(
            PATHS[kind].view(Anything),
            Key(namespace or self.namespace, name),
            patch,
            kind=Patch.MERGE,
            subresource=subresource,
        )

    async def remove(self, kind: str, name: str, namespace: str | None = None) -> None:
        await self.request("DELETE", self._path(kind, name, namespace))

    async def condition(self, kind: str, name: str, namespace: str | None = None) -> Document:
        """The Ready condition, once there is one for the current generation."""
        return ready_condition(await self.read(kind, name, namespace))

    async def becomes(
        self, kind: str, name: str, reason: str, says: str = "", namespace: str | None = None
    ) -> Document:
        """Waits until the Ready condition has this reason and these words; gives the object that it was found on."""

        async def probe() -> Document:
            found = await self.read(kind, name, namespace)
            condition = ready_condition(found)
            assert condition["reason"] == reason, condition
            assert says in condition["message"], condition
            return found

        return await eventually(probe, what=f"{kind} {name} is {reason} {says!r}")

    async def until(self, probe: Callable[[], Any], what: str) -> Any:
        return await eventually(probe, what=what)

    async def pod_of(self, name: str, namespace: str | None = None) -> Document:
        """The one pod of a unit that is not ending."""

        async def probe() -> list[Document]:
            pods = await self.find("Pod", namespace, labels=f"runtime.lokiwager.io/unit={name}")
            return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

        pods: list[Document] = await eventually(probe, what=f"a pod of {name}")
        assert len(pods) == 1, pods
        return pods[0]

    async def events(self, name: str, reason: str) -> list[Document]:
        return [
            each
            for each in await self.find("Event")
            if each["involvedObject"]["name"] == name and each["reason"] == reason
        ]

    async def settled(self) -> None:
        """Nothing more is written, and nothing waits to be."""

        async def probe() -> bool:
            mark = self.proxy.mark()
            await self.resync()
            assert not self.pending(), "a look that was put off would hide that nothing else brings the key back"
            return not self.written(since=mark)

        await eventually(probe, what="the reconcilers have nothing more to write")

    def pending(self) -> set[Key]:
        """Keys of this test that wait to be reconciled, now or later."""
        mine = (self.namespace, self.stock_namespace)
        queues = [controller.queue for controller in self.controllers.values()]
        return {key for queue in queues for key in queue.pending() if key.namespace in mine}

    async def resync(self) -> None:
        """Every object is reconciled once more; returns when all have been."""
        before = self.reconciles()
        for controller in self.controllers.values():
            controller.resync()
        due = sum(len(controller.queue) for controller in self.controllers.values())
        await eventually(lambda: self.reconciles() >= before + due, what="every object was reconciled")

    def reconciles(self) -> int:
        """How many reconciles have ended."""
        assert self.manager is not None
        families = self.manager.metrics.registry.collect()
        samples = [sample for family in families for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name == "controller_reconciles_total"))

    def written(self, since: int = 0) -> list[str]:
        """The reconcilers' mutating requests about this test's objects."""
        mine = (self.namespace, self.stock_namespace)
        exchanges: list[Exchange] = [each for each in self.proxy.calls(since=since) if each.call.namespace in mine]
        return quiet(exchanges)

    async def kubectl(self, *arguments: str) -> str:
        done = await asyncio.to_thread(self.server.kubectl, *arguments, "-n", self.namespace)
        return done.stdout

    def _path(self, kind: str, name: str, namespace: str | None) -> str:
        return PATHS[kind].path(self.namespace if namespace is None else namespace, name)

    async def request(self, method: str, path: str, body: Document | None = None) -> Document:
        answer = await self.client.request(method, path, body=body, subject=f"{method} {path}")
        document: Document = json.loads(answer)
        return document


def ready_condition(found: Document) -> Document:
    """Of an object whose current generation has one."""
    conditions = found.get("status", {}).get("conditions", [])
    ready: list[Document] = [each for each in conditions if each["type"] == "Ready"]
    assert ready, f"{found['metadata']['name']} has no Ready condition: {found.get('status')}"
    assert ready[0]["observedGeneration"] == found["metadata"]["generation"]
    return ready[0]
