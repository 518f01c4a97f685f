"""The API as a test has it: the whole process in the test's event loop, on a real API server, spoken to over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from equipment import servers
from equipment.judge import Timeline, Witness, list_objects, timeline
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID
from gpu_runtime.api.v1alpha1.provenance import is_inert, provenance
from gpu_runtime.config import Health, OperationSettings, RuntimeApiSettings
from gpu_runtime.controllers.gpuunit.admission import Admit, Remove, admission
from gpu_runtime.controllers.gpuunit.stock_gate import Listed, is_gated, listing
from gpu_runtime.http.server import RuntimeApi
from gpu_runtime.kube import Client, Query, load_config
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.services import Services
from gpu_runtime.service.stock.claim import holder

KINDS = ("gpufunctions", "gpustorages", "gpuunits", "operations", "stockpools")


@dataclass(frozen=True)
class Answer:
    """What a client was told."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Any:
        assert "data" in (self.body or {}), self
        return self.body["data"]

    @property
    def code(self) -> str:
        return str(((self.body or {}).get("error") or {}).get("code", ""))

    @property
    def message(self) -> str:
        return str(((self.body or {}).get("error") or {}).get("message", ""))

    @property
    def fields(self) -> set[str]:
        return {detail["field"] for detail in self.body["error"].get("details", [])}


@dataclass
class Api:
    """One running API process."""

    url: str
    services: Services
    session: aiohttp.ClientSession
    task: asyncio.Task[None]

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        url = URL(f"{self.url}/api/v1{path}", encoded="%" in path)
        async with self.session.request(method, url, json=body, **options) as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            return Answer(response.status, await response.json() if is_json and text else text, response.headers)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("PUT", path, body, **options)

    async def delete(self, path: str, **options: Any) -> Answer:
        return await self.call("DELETE", path, **options)

    def kill(self) -> None:
        """Ends the process as a SIGKILL would: nothing of it goes on, nothing is ended in order."""
        self.task.cancel()


@dataclass(frozen=True)
class Places:
    """The namespaces of one test, and a hand that reaches past every API."""

    server: ApiServer
    client: Client
    system: str
    stock: str
    instance: str

    def settings(self, **more: Any) -> RuntimeApiSettings:
        return RuntimeApiSettings(
            installNamespace=self.system,
            stockNamespace=self.stock,
            instanceNamespace=self.instance,
            allowedNamespaces=[self.instance, "missing-*", "default"],
            httpAddr="127.0.0.1:0",
            health=Health(port=0),
            drainSeconds=5,
            operations=OperationSettings(abandonedAfterSeconds=3600, replayWaitSeconds=1),
            **more,
        )

    @asynccontextmanager
    async def api(self, server: ApiServer | None = None, *, warm: bool = True, **settings: Any) -> AsyncIterator[Api]:
        """A running API, by default with warm caches; `server` may be a proxy. It is ended with the block."""
        config = load_config((server or self.server).kubeconfig)
        stop = asyncio.Event()
        async with Client(config, user_agent="runtime-api") as client, aiohttp.ClientSession() as session:
            process = RuntimeApi(client, self.settings(**settings))
            task = asyncio.create_task(process.run(stop))
            try:
                await asyncio.wait_for(process.server.started.wait(), 60)
                if warm:
                    await eventually(lambda: not any(process.manager.checks().values()), what="warm caches")
                yield Api(process.server.url, process.services, session, task)
            finally:
                stop.set()
                await asyncio.gather(task, return_exceptions=True)

    async def units(self, namespace: str) -> list[Any]:
        return (await self.client.list(Query(GPU_UNITS, namespace))).items

    async def make_ready(self, node: str = "fake-0") -> None:
        """What the controller would find out about the stock: all of it is Ready that its record lists."""
        records = {each.metadata.uid: each for each in (await self.client.list(Query(OPERATIONS))).items}
        for unit in await self.units(self.stock):
            record = records.get(unit.metadata.annotations.get(OPERATION_UID, ""))
            if unit.status.phase == "Ready" or (is_gated(unit) and not isinstance(listing(unit, record), Listed)):
                continue
            ready = {
                "type": "Ready",
                "status": "True",
                "reason": "StockReady",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            status = {"phase": "Ready", "observedGeneration": 1, "nodeName": node, "conditions": [ready]}
            await self.client.patch(GPU_UNITS, unit.metadata.key, {"status": status}, subresource="status")

    async def seed(self, api: Api, replicas: int, *, spec: str = "g1.1", operation_id: str = "seed") -> None:
        """Ready stock, known to the API."""
        body = {"operationID": operation_id, "specName": spec, "memory": "1Gi", "gpu": 1, "replicas": replicas}
        answer = await api.post("/operator/stock-units", body)
        assert answer.status in (200, 202), answer

        async def done() -> bool:
            job = await api.get(f"/operator/jobs/{operation_id}?type=seed_stock_units")
            return bool(job.data["status"] == "succeeded")

        await eventually(done, what="the stock is seeded")
        await self.make_ready()
        await self.known(api)

    async def known(self, api: Api) -> None:
        """The API's cache of stock has come as far as the server."""
        store = api.services.units._units.store

        async def same() -> bool:
            # Read anew each time: stock that was handed over may go while this waits.
            there = {(unit.metadata.name, unit.metadata.resourceVersion) for unit in await self.units(self.stock)}
            cached = {
                (unit.metadata.name, unit.metadata.resourceVersion)
                for unit in store
                if unit.metadata.namespace == self.stock
            }
            return cached == there

        await eventually(same, what="the API knows the stock")

    async def free_stock(self) -> list[Any]:
        """The stock, once no hand-over holds any of it: a reply does not wait for the end of the consumed stock."""

        async def left() -> tuple[list[Any]]:
            stock = await self.units(self.stock)
            claimed = [unit.metadata.name for unit in stock if holder(unit)]
            assert not claimed, f"still claimed: {claimed}"
            return (stock,)

        stock: list[Any] = (await eventually(left, what="no stock is claimed any more"))[0]
        return stock

    async def reconcile_inert(self) -> None:
        """What the unit's controller does with what a dead executor left, by its own decision function."""
        for unit in await self.units(self.instance):
            if not is_inert(unit):
                continue
            records = await self.client.list(
                Query(OPERATIONS, self.system, fields=f"metadata.name={_record_name(unit)}")
            )
            match decision := admission(unit, records.items):
                case Admit():
                    patch = {"metadata": {"annotations": provenance(decision.choice)}}
                    await self.client.patch(GPU_UNITS, unit.metadata.key, patch)
                case Remove():
                    await self.client.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)

    @property
    def paths(self) -> list[str]:
        base = "/apis/runtime.lokiwager.io/v1alpha1/namespaces"
        return [
            f"{base}/{namespace}/{kind}" for namespace in (self.system, self.stock, self.instance) for kind in KINDS
        ]

    async def listing(self) -> list[dict[str, Any]]:
        return await list_objects(self.server, *self.paths)

    @asynccontextmanager
    async def witnessed(self) -> AsyncIterator[Witness]:
        async with Witness(self.server, self.paths) as witness:
            yield witness

    async def seen(self, witness: Witness) -> Timeline:
        """All that happened, up to now."""
        after = await self.listing()
        newest = max((int(each["metadata"]["resourceVersion"]) for each in after), default=0)
        if any(int(event["object"]["metadata"]["resourceVersion"]) < newest for event in witness.events):
            await witness.caught_up(str(newest))
        return timeline([], before=witness.before, after=after, events=witness.events)


def _record_name(unit: Any) -> str:
    return str(unit.metadata.labels["runtime.lokiwager.io/operation"])


@contextmanager
def places(server: ApiServer, client: Client, hint: str) -> Iterator[Places]:
    """Three namespaces of their own."""
    with (
        servers.fresh_namespace(server, f"sys-{hint}") as system,
        servers.fresh_namespace(server, f"stock-{hint}") as stock,
        servers.fresh_namespace(server, f"inst-{hint}") as instance,
    ):
        yield Places(server, client, system, stock, instance)


def unit_request(operation_id: str = "unit-1", name: str = "demo", **more: Any) -> dict[str, Any]:
    return {
        "operationID": operation_id,
        "name": name,
        "specName": "g1.1",
        "image": "python:3.12",
        "access": {"primaryPort": "http", "scheme": "http"},
        "template": {
            "command": ["python"],
            "args": ["-m", "http.server", "8080"],
            "ports": [{"name": "http", "port": 8080}],
        },
        **more,
    }


def pool_request(operation_id: str = "pool-1", name: str = "pool-g1-demo", **more: Any) -> dict[str, Any]:
    return {
        "operationID": operation_id,
        "name": name,
        "specName": "g1.1",
        "image": "python:3.12-slim",
        "memory": "16Gi",
        "gpu": 1,
        "replicas": 0,
        "template": {
            "command": ["python"],
            "args": ["-m", "http.server", "8080"],
            "envs": [{"name": "MODEL_ID", "value": "demo-model"}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        },
        **more,
    }
