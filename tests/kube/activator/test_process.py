"""The activator as a process, with the account and roles that its declaration gives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from equipment.nats import NatsServer, free_port
from equipment.waiting import eventually
from gpu_runtime.activator.kinds import GPU_FUNCTIONS
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.kube import NotFound
from gpu_runtime.serverless.credentials.keyring import KeyRing
from kube.activator.test_activator import accept, beat, create, let_go, phase, report_ready, workers
from kube.http.api import Places


async def test_it_does_its_work_with_the_roles_that_it_declared_and_ends_in_order(
    world: Places, broker: NatsServer, tmp_path: Path
) -> None:
    account = world.server.as_service_account(SYSTEM_NAMESPACE, "gpu-runtime-activator", tmp_path)
    key, log, config = tmp_path / "signing.key", tmp_path / "activator.log", tmp_path / "activator.yaml"
    key.write_text(KeyRing.generate(issued=0).worker_signer().text)
    settings = {
        "stockNamespace": world.stock,
        "health": {"port": free_port()},
        "nats": {"url": broker.settings.url},
        "signingKeyFile": str(key),
    }
    config.write_text(json.dumps(settings))
    async with world.api() as api:
        await world.seed(api, 1)
    with log.open("w") as out:
        command = (sys.executable, "-m", "gpu_runtime.cli", "activator", "--config", str(config))
        environment = {**os.environ, "KUBECONFIG": str(account.kubeconfig)}
        process = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out, env=environment)
        try:
            await _play(world, broker)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await let_go(world)
    lines = log.read_text().splitlines()
    assert [line for line in lines if "is forbidden: User" in line] == []


async def _play(world: Places, broker: NatsServer) -> None:
    """Every kind of call: stock and cold, a source, a status, an update, a drain, an event, a deletion."""
    async with broker.connection() as connection:
        await create(world, unit={"specName": "g1.1", "image": "echo:1", "gpu": 1, "memory": "1Gi"})
        await accept(world, connection, 2)
        await workers(world, 2)
        await report_ready(world)
        await beat(world, connection)
        await phase(world, "Ready")
        source = {"unit": {"image": None}, "handler": {"source": "def main(payload):\n    return 1\n"}}
        await world.client.patch(GPU_FUNCTIONS, Key(world.instance, "echo"), {"spec": source})

        async def rolled() -> bool:
            await beat(world, connection, "draining")
            units = await world.units(world.instance)
            return any(unit.spec.serverless.handler is not None for unit in units)

        await eventually(rolled, what="a worker has the source")
        notes = {"metadata": {"annotations": {"runtime.lokiwager.io/pending-invocations": "cancel"}}}
        await world.client.patch(GPU_FUNCTIONS, Key(world.instance, "echo"), notes)
        await world.client.delete(GPU_FUNCTIONS, Key(world.instance, "echo"))

        async def gone() -> bool:
            try:
                await world.client.get(GPU_FUNCTIONS, Key(world.instance, "echo"))
            except NotFound:
                return True
            return False

        await eventually(gone, what="the function is gone")
