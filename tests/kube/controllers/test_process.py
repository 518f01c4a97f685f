"""The controller-manager as a process of its own, with the permissions that it declares and no others."""

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

import aiohttp
import pytest

from equipment.builders import a_stock_pool
from equipment.servers import ApiServer
from equipment.waiting import eventually
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.world import World
from kube.runtime.storage_world import StorageWorld
from realkube.process import free_ports

CONFIG = Path(__file__).resolve().parents[3] / "config"
ACCOUNT = "gpu-runtime-controller-manager"
SYSTEM = "gpu-runtime-system"


@dataclass
class Running:
    process: asyncio.subprocess.Process
    url: str
    log: Path

    async def answer(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return response.status, await response.text()

    async def is_ready(self) -> bool:
        try:
            return (await self.answer("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@asynccontextmanager
async def controller_manager(server: ApiServer, folder: Path, config: str = "") -> AsyncIterator[Running]:
    port = free_ports(1)[0]
    settings, log = folder / "controller-manager.yaml", folder / "log"
    settings.write_text(f"health: {{port: {port}}}\n{config}")
    command = (sys.executable, "-m", "gpu_runtime.cli", "controller-manager", "--config", str(settings))
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    with log.open("w") as out:
        process = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out, env=environment)
        try:
            yield Running(process, f"http://127.0.0.1:{port}", log)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.fixture
def as_controller_manager(installed: ApiServer, tmp_path: Path) -> ApiServer:
    """The server as the process meets it in a cluster: with the account and roles of config/rbac."""
    return installed.as_service_account(SYSTEM, ACCOUNT, tmp_path)


async def test_the_process_reconciles_with_the_roles_that_it_declared_and_drains_on_sigterm(
    world: World, as_controller_manager: ApiServer, tmp_path: Path
) -> None:
    async with controller_manager(as_controller_manager, tmp_path) as running:
        await eventually(running.is_ready, what="the process is ready")
        assert (await running.answer("/healthz"))[0] == 200
        await world.create(demo_unit(world).spec(access={}))
        await world.create(a_stock_pool("pool", world.namespace).spec(memory="not-a-quantity"))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.becomes("StockPool", "pool", "InvalidSpec")
        await world.change("GPUUnit", "demo", {"spec": {"template": {"ports": None}}})
        await world.change("Deployment", "demo", {"spec": {"replicas": 0}})
        await world.becomes("GPUUnit", "demo", "UnitReady")

        async def told() -> bool:
            return bool(await world.events("pool", "InvalidSpec"))

        await eventually(told, what="the event is written")
        metrics = (await running.answer("/metrics"))[1]
        assert 'controller_reconciles_total{controller="gpuunit",outcome="done"}' in metrics
        running.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.process.wait(), 60) == 0
        refused = [line for line in running.lines() if "forbidden: User" in str(line)]
        assert refused == []
        assert [line for line in running.lines() if line.get("event") == "leading"]
    lease = world.server.kubectl("get", "lease", "9d4c4758.lokiwager.io", "-n", SYSTEM, "-o", "json")
    assert json.loads(lease.stdout)["spec"].get("holderIdentity", "") == ""


async def test_the_process_keeps_a_storage_with_the_roles_that_it_declared(
    world: World, as_controller_manager: ApiServer, tmp_path: Path
) -> None:
    """Every kind of call: the claim is made, its events are read, it is repaired, grown and deleted."""
    made = StorageWorld(world.client, world.namespace)
    await made.add_class()
    async with controller_manager(as_controller_manager, tmp_path) as running:
        await made.create("1Gi")
        await world.becomes("GPUStorage", "data", "StoragePending", "example.org/away")
        await made.add_volume("1Gi")
        await world.becomes("GPUStorage", "data", "StorageReady")
        await world.change("PersistentVolumeClaim", "data", {"metadata": {"labels": None}})
        await world.change("GPUStorage", "data", {"spec": {"size": "2Gi"}})
        await made.asks_for("2Gi")
        await world.remove("GPUStorage", "data")
        await made.gone()
        refused = [line for line in running.lines() if "forbidden: User" in str(line)]
        assert refused == []
    await made.clean_up()


async def test_what_is_not_installed_is_named_at_start(world: World, tmp_path: Path) -> None:
    config = (
        f"installNamespace: {world.namespace}\nunits: {{priorityClassName: not-there}}\nstock: {{namespaces: [no-ns]}}"
    )
    async with controller_manager(world.server, tmp_path, config) as running:
        await eventually(running.is_ready, what="the process is ready")

        def named() -> bool:
            problems = {str(line.get("problem")) for line in running.lines()}
            wanted = ("namespace no-ns does not exist", "priority class not-there does not exist")
            return all(any(problem.startswith(each) for problem in problems) for each in wanted)

        await eventually(named, what="both are named in the log")


async def test_a_server_that_is_not_there_is_outlived_and_said_on_the_ready_port(
    installed: ApiServer, tmp_path: Path
) -> None:
    away = installed.with_url(f"https://127.0.0.1:{free_ports(1)[0]}", installed.ca_file, tmp_path)
    async with controller_manager(away, tmp_path) as running:

        async def says_so() -> bool:
            try:
                status, text = await running.answer("/readyz")
            except aiohttp.ClientError:
                return False
            return status == 503 and "gpuunits.runtime.lokiwager.io" in text

        await eventually(says_so, what="/readyz names the caches that it lacks")
        assert running.process.returncode is None


async def test_a_kubeconfig_that_does_not_exist_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpu_runtime.cli", "controller-manager", "--kubeconfig", str(nowhere),
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, error = await process.communicate()
    assert process.returncode == 2
    assert str(nowhere) in error.decode()
    assert "Traceback" not in error.decode()


def test_the_manifests_of_the_processes_are_what_the_server_takes(installed: ApiServer) -> None:
    checked = installed.kubectl("apply", "-k", str(CONFIG / "manager"), "--dry-run=server", "-o", "name").stdout
    assert "deployment.apps/controller-manager" in checked
    assert "deployment.apps/runtime-api" in checked
