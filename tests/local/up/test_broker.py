"""The broker of `up`: pods reach it, and it keeps what it stored when it is killed or gets another port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from equipment.installation import Up
from equipment.nats import SMALL_STREAMS
from equipment.nats_credentials import connected
from equipment.privileges import needs_root
from equipment.waiting import eventually_sync
from gpu_runtime.cmd.up.broker import BROKER, LocalBroker
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.publishing import last
from gpu_runtime.serverless.broker.streams import RESULTS
from gpu_runtime.serverless.credentials.signing import AccountSigner, worker_credentials
from gpu_runtime.serverless.subjects import Function, Run

ECHO = Function("runtime-instance", "echo")
PODS = "/api/v1/namespaces/runtime-instance/pods"
WORKER = """
import asyncio, os, pathlib
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish_once

async def main():
    pathlib.Path("/tmp/creds").write_text(os.environ["CREDENTIALS"])
    settings = NatsSettings(url="nats://gpu-runtime-nats.gpu-runtime-system.svc:4222", credentialsFile="/tmp/creds")
    async with Broker(settings, "pod") as broker:
        await asyncio.wait_for(broker.connected(), 60)
        print("stored", await publish_once(broker, os.environ["SUBJECT"], b"{}"))

asyncio.run(main())
"""


def broker_of(up: Up) -> LocalBroker:
    layout = Layout.at(up.data_dir)
    remembered = layout.remembered()
    assert remembered is not None
    return LocalBroker(layout, remembered.ports)


def settings_of(up: Up) -> NatsSettings:
    broker = broker_of(up)
    return NatsSettings(url=broker.url, credentialsFile=str(broker.files.credentials("runtime-api")))


async def make_streams(up: Up) -> None:
    async with connected(settings_of(up), "test") as api:
        await streams.ensure(api, SMALL_STREAMS)


async def is_stored(up: Up, run: Run) -> bool:
    async with connected(settings_of(up), "test") as api:
        return await last(api, RESULTS, subjects.ended(run)) is not None


def store_from_a_pod(up: Up, folder: Path, run: Run) -> None:
    """Runs a pod that stores the end of the run with the credentials of a worker."""
    signer = AccountSigner.read(broker_of(up).files.signing_key)
    credentials = worker_credentials(signer, run.function, issued=int(time.time()))
    environment = {"CREDENTIALS": credentials.text, "SUBJECT": subjects.ended(run)}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": run.invocation_id},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "gpu-runtime:dev",
                    "command": [sys.executable, "-c", WORKER],
                    "env": [{"name": name, "value": value} for name, value in environment.items()],
                }
            ],
        },
    }
    kubernetes = up.kubernetes(folder)
    made = kubernetes.request("POST", PODS, pod)
    assert made.status == 201, made

    def ended() -> Any:
        phase = kubernetes.request("GET", f"{PODS}/{run.invocation_id}").body["status"].get("phase")
        assert phase in ("Succeeded", "Failed"), phase
        return phase

    phase = eventually_sync(ended, within=120, what="the pod has ended")
    assert phase == "Succeeded", kubernetes.request("GET", f"{PODS}/{run.invocation_id}/log")


@needs_root("pods without a bridge cannot call out")
def test_pods_reach_the_broker_also_after_it_was_killed_and_has_another_port(own_up: Up, tmp_path: Path) -> None:
    own_up.start()
    asyncio.run(make_streams(own_up))
    first, second, third = (Run(ECHO, f"run-{number}", 1) for number in range(3))
    store_from_a_pod(own_up, tmp_path, first)

    before = {each.record.name: each.record for each in own_up.status().processes}
    os.kill(before[BROKER].identity.pid, signal.SIGKILL)
    eventually_sync(lambda: broker_restarts(own_up) > before[BROKER].restarts, what="the broker was started again")
    own_up.until_healthy()
    assert asyncio.run(is_stored(own_up, first))
    store_from_a_pod(own_up, tmp_path, second)

    assert own_up.stop() == 0
    port = broker_of(own_up).ports.broker
    with contextlib.closing(socket.create_server(("127.0.0.1", port))):
        own_up.start()
        assert broker_of(own_up).ports.broker != port
        store_from_a_pod(own_up, tmp_path, third)
        assert all(asyncio.run(is_stored(own_up, run)) for run in (first, second, third))


def broker_restarts(up: Up) -> int:
    return next(each.record.restarts for each in up.status().processes if each.record.name == BROKER)
