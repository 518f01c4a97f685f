"""The runtime-api as a process of its own, with the permissions that it declares and no others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from equipment.fault_proxy import FaultProxy, creates
from equipment.servers import ApiServer
from equipment.waiting import eventually
from kube.http.api import Places, pool_request, unit_request
from realkube.process import free_ports

ACCOUNT = "gpu-runtime-runtime-api"
SYSTEM = "gpu-runtime-system"


@dataclass
class Running:
    process: asyncio.subprocess.Process
    url: str
    health: str
    log: Path
    session: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.session.request(method, f"{self.url}/api/v1{path}", json=body) as response:
            text = await response.text()
            return response.status, json.loads(text) if text.startswith("{") else text

    async def probe(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.health + path) as response:
            return response.status, await response.text()

    async def is_ready(self) -> bool:
        try:
            return (await self.probe("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@asynccontextmanager
async def runtime_api(server: ApiServer, world: Places, folder: Path, system: str = SYSTEM) -> AsyncIterator[Running]:
    port, health = free_ports(2)
    settings, log = folder / "runtime-api.yaml", folder / "log"
    settings.write_text(
        f"httpAddr: 127.0.0.1:{port}\nhealth: {{port: {health}}}\ninstallNamespace: {system}\n"
        f"stockNamespace: {world.stock}\ninstanceNamespace: {world.instance}\nallowedNamespaces: [{world.instance}]\n"
    )
    command = (sys.executable, "-m", "gpu_runtime.cli", "runtime-api", "--config", str(settings))
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    with log.open("w") as out:
        process = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out, env=environment)
        try:
            async with aiohttp.ClientSession() as session:
                yield Running(process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{health}", log, session)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_every_route_works_with_the_roles_that_the_process_declared(world: Places, tmp_path: Path) -> None:
    account = world.server.as_service_account(SYSTEM, ACCOUNT, tmp_path)
    mine = world.stock  # ids in the shared system namespace must be this test's own
    async with runtime_api(account, world, tmp_path) as api:
        await eventually(api.is_ready, what="the process is ready")
        seed = {"operationID": f"seed-{mine}", "specName": "g1.1", "memory": "1Gi", "gpu": 1, "replicas": 2}
        assert (await api.call("POST", "/operator/stock-units", seed))[0] == 202

        async def seeded() -> bool:
            job = await api.call("GET", f"/operator/jobs/seed-{mine}")
            return bool(job[1]["data"]["status"] == "succeeded")

        await eventually(seeded, what="the stock is seeded")
        await world.make_ready()

        async def handed_over() -> bool:
            return (await api.call("POST", "/gpu-units", unit_request(f"unit-{mine}")))[0] == 201

        await eventually(handed_over, what="the unit is made")
        pool = pool_request(f"pool-{mine}", namespace=world.instance)
        assert (await api.call("POST", "/operator/stockpools", pool))[0] == 202
        assert (await api.call("POST", "/gpu-storages", {"name": "data", "size": "1Gi"}))[0] == 201
        assert (await api.call("PUT", "/gpu-storages/data", {"accessor": {"enabled": True}}))[0] == 200
        grown = await api.call("PUT", "/gpu-storages/data", {"size": "2Gi"})
        assert grown[0] == 200 or "storage class" in grown[1]["error"]["message"]
        for method, path, status in (
            ("GET", "/health", 200),
            ("GET", "/operator/inventory", 200),
            ("GET", "/operator/jobs", 200),
            ("GET", "/gpu-units", 200),
            ("GET", "/gpu-units?watch=true&timeoutSeconds=1", 200),
            ("GET", "/gpu-units/demo", 200),
            ("GET", "/gpu-units/demo/events", 200),
            ("GET", "/gpu-units/demo/logs", 404),
            ("GET", "/operator/stock-units", 200),
            ("GET", "/gpu-storages?watch=true&timeoutSeconds=1", 200),
            ("GET", "/gpu-storages/data", 200),
            ("POST", "/gpu-storages/data/recover", 409),
            ("DELETE", "/gpu-storages/data", 204),
            ("DELETE", "/gpu-units/demo", 204),
            ("DELETE", f"/operator/stockpools/pool-g1-demo?namespace={world.instance}", 204),
        ):
            assert (await api.call(method, path))[0] == status, (method, path)
        changed = await api.call("PUT", "/gpu-units/demo", {"image": "a"})
        assert changed[0] == 404
        (left,) = [unit.metadata.name for unit in await world.free_stock()]
        assert (await api.call("DELETE", f"/operator/stock-units/{left}"))[0] == 204
        assert "cache_objects" in (await api.probe("/metrics"))[1]
        api.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(api.process.wait(), 60) == 0
        assert [line for line in api.lines() if "forbidden: User" in str(line)] == []
        audit = [line for line in api.lines() if line["event"] == "change"]
        assert {line["outcome"] for line in audit if line["operation_id"] == f"unit-{mine}"} >= {"Created"}


async def test_a_request_under_way_is_answered_before_the_process_ends(
    world: Places, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    async with runtime_api(fault_proxy.server, world, tmp_path, world.system) as api:
        await eventually(api.is_ready, what="the process is ready")
        held = fault_proxy.on(creates("stockpools"), times=1).hold()
        asked = asyncio.create_task(api.call("POST", "/operator/stockpools", pool_request(namespace=world.instance)))
        await held.arrived()
        api.process.send_signal(signal.SIGTERM)

        async def refused() -> bool:
            try:
                async with aiohttp.ClientSession() as session, session.get(f"{api.url}/api/v1/health"):
                    return False
            except aiohttp.ClientError:
                return True

        await eventually(refused, what="no new requests are taken")
        held.release()
        assert (await asked)[0] == 202
        assert await asyncio.wait_for(api.process.wait(), 60) == 0


async def test_a_server_that_is_not_there_is_outlived_and_said_on_the_ready_port(world: Places, tmp_path: Path) -> None:
    away = world.server.with_url(f"https://127.0.0.1:{free_ports(1)[0]}", world.server.ca_file, tmp_path)
    async with runtime_api(away, world, tmp_path, world.system) as api:

        async def said() -> bool:
            try:
                status, text = await api.probe("/readyz")
            except aiohttp.ClientError:
                return False
            return status == 503 and "cannot reach" in text

        await eventually(said, what="the ready port says what is missing")
        assert (await api.probe("/healthz"))[0] == 200
        status, health = await api.call("GET", "/health")
        assert (status, health["data"]["status"], health["data"]["kubernetesConnected"]) == (200, "degraded", False)
        assert (await api.call("GET", "/gpu-units"))[0] == 503
        assert (await api.call("POST", "/gpu-units", unit_request()))[0] == 503
        assert api.process.returncode is None


async def test_settings_that_cannot_work_end_the_process_with_one_line(world: Places, tmp_path: Path) -> None:
    settings = tmp_path / "runtime-api.yaml"
    settings.write_text("httpAddr: 0.0.0.0:0\n")
    command = (sys.executable, "-m", "gpu_runtime.cli", "runtime-api", "--config", str(settings))
    environment = {**os.environ, "KUBECONFIG": str(world.server.kubeconfig)}
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environment)
    _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert b"tokenFile" in said
    assert b"Traceback" not in said
