"""Pods of serverless workers on the embedded node, as the unit's controller builds them, with a real broker."""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from equipment.builders import a_unit
from equipment.mutation import mutant
from equipment.nats_credentials import running_secured_nats
from equipment.privileges import needs_root
from equipment.workers import Queue
from gpu_runtime.api.v1alpha1.serverless import CREDENTIALS_KEY, HANDLER_KEY, credentials_secret
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.config.controller_manager import ServerlessSettings
from gpu_runtime.controllers.gpuunit.resources.deployment import active_pod, pod_size
from gpu_runtime.controllers.gpuunit.resources.serverless import CREDENTIALS_FILE
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.credentials.signing import worker_credentials
from gpu_runtime.serverless.subjects import Function, Run
from local.node.cluster import CONFIG_MAPS, SECRETS, Cluster, resource

SERVICES, SLICES = resource("Service", "services"), resource("EndpointSlice", "endpointslices", "discovery.k8s.io")
USER, WORKER = "runtime-worker", "serverless-worker"
PORT = 4222
SOURCE = """
import os, time

def main(payload):
    time.sleep(payload.get("seconds", 0))
    return {"got": payload, "user": os.getuid(), "greeting": os.environ["GREETING"]}
"""
TEMPLATE = {"envs": [{"name": "GREETING", "value": "hello"}]}
pytestmark = needs_root("pods have no network of their own and reach no Service")


@pytest.fixture
async def queue(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Queue]:
    """A broker, and a Service of the cluster that leads to it."""
    function = Function(cluster.namespace, "echo")
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(running_secured_nats(tmp_path))
        await Queue(await stack.enter_async_context(nats.role("activator")), function).create_consumers()
        await cluster.create(SERVICES, "nats", spec={"ports": [{"name": "nats", "port": PORT}]})
        slice_of = {"labels": {"kubernetes.io/service-name": "nats"}}
        ports = [{"name": "nats", "port": nats.server.port, "protocol": "TCP"}]
        where = {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": ports}
        await cluster.create(SLICES, "nats", metadata=slice_of, **where)
        credentials = worker_credentials(nats.keys.worker_signer(), function, issued=int(time.time())).text
        secret = {CREDENTIALS_KEY: base64.b64encode(credentials.encode()).decode()}
        await cluster.create(SECRETS, credentials_secret(function.name), data=secret)
        await cluster.create(CONFIG_MAPS, "fn-echo", data={HANDLER_KEY: SOURCE})
        yield Queue(await stack.enter_async_context(nats.role("runtime-api")), function)


async def run_worker(cluster: Cluster, **spec: Any) -> None:
    """The pod of a unit that is a worker of `echo`."""
    serverless = {"enabled": True, "requestID": "echo", "concurrency": 2, **spec.pop("serverless", {})}
    unit = a_unit("echo-0").in_namespace(cluster.namespace).with_uid("u").spec(serverless=serverless, **spec).object()
    broker = ServerlessSettings(brokerURL=f"nats://nats.{cluster.namespace}.svc:{PORT}")
    template = active_pod(unit, pod_size(unit), ControllerManagerSettings(serverless=broker))
    document = {**msgspec.to_builtins(template.spec), "nodeName": cluster.node}
    del document["priorityClassName"]  # not installed on this server
    await cluster.create(PODS, "echo-0", spec=document)


async def run_handler(cluster: Cluster) -> Pod:
    handler = {"handler": {"configMapName": "fn-echo", "entry": "main"}}
    await run_worker(cluster, image=None, memory="256Mi", template=TEMPLATE, serverless=handler)
    return await cluster.until(
        "echo-0",
        lambda pod: all(each.ready for each in pod.status.containerStatuses) and pod.status.phase == "Running",
        within=120,
    )


async def test_a_worker_runs_the_source_of_its_function(cluster: Cluster, queue: Queue) -> None:
    async with cluster.agent():
        await run_handler(cluster)
        ended = await queue.wait_for_end(await queue.submit("inv-1", {"x": 1}))
        assert (ended.state, ended.attempts, ended.workerName) == ("succeeded", 1, "echo-0")
        assert msgspec.json.decode(ended.body.inline()) == {"got": {"x": 1}, "user": 65534, "greeting": "hello"}
        await cluster.delete("echo-0")


@mutant(
    "controllers/gpuunit/resources/serverless.py",
    '        lifecycle=pod.Lifecycle(preStop=pod.Hook(httpGet=pod.HttpGet(path="/drained", port=HEALTH_PORT))),\n',
    "",
)
async def test_an_invocation_that_runs_when_its_pod_is_deleted_is_finished(cluster: Cluster, queue: Queue) -> None:
    async with cluster.agent():
        pod = await run_handler(cluster)
        started = await queue.broker.nats.subscribe(subjects.output(Run(queue.function, "inv-1", 1)))
        await queue.broker.nats.flush()
        run = await queue.submit("inv-1", {"seconds": 4})
        async with asyncio.timeout(120):
            await started.next_msg(timeout=110)
        await cluster.delete("echo-0")
        ended = await queue.wait_for_end(run)
        assert (ended.state, ended.attempts) == ("succeeded", 1), ended
        assert pod.spec.terminationGracePeriodSeconds > 4


def python(script: str) -> str:
    return f"python -c {shlex.quote(script)}"


# What the user's program tries, as root in its container; each must fail.
ATTEMPTS = {
    "read the worker's mount": f"cat {CREDENTIALS_FILE}",
    "read it through another process": f"cat /proc/[0-9]*/root{CREDENTIALS_FILE}",
    # Other installations may have left such files: only one with this worker's key counts.
    "find it": f"find / -name {CREDENTIALS_KEY} -not -path '/proc/*' -exec grep -ls $KEY {{}} + | grep -q .",
    "see the mount": "grep -q credentials /proc/self/mountinfo",
    "see the worker": "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'gpu-runtime[ ]worker'",
    "read the worker's environment": "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -q GPU_RUNTIME_WORKER",
    "find it in the folder that both share": "grep -rqs NKEY /tmp/serverless-framework",
    "listen to the network": python("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768)"),
    "make packets": python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 6)"),
    "enter the worker's namespaces": "for each in /proc/[0-9]*; do nsenter -m -t ${each#/proc/} test -e "
    f"{CREDENTIALS_FILE} && exit 0; done; exit 1",
}
FRAMEWORK = "import time\nopen('/tmp/serverless-framework/left', 'w').close()\ntime.sleep(3600)\n"


@mutant(
    "controllers/gpuunit/resources/serverless.py",
    'capabilities=pod.Capabilities(drop=["NET_RAW"])',
    "capabilities=None",
)
async def test_the_users_program_cannot_read_the_workers_credentials(cluster: Cluster, queue: Queue) -> None:
    async with cluster.agent():
        template = {"command": ["python", "-c", FRAMEWORK]}
        await run_worker(cluster, image="framework:1", memory="256Mi", template=template)
        pod = await cluster.until(
            "echo-0", lambda pod: len([each for each in pod.status.containerStatuses if each.state.running]) == 2
        )
        uid = pod.metadata.uid

        async def execute(container: str, script: str) -> tuple[int | None, str]:
            return await cluster.runtime.execute(uid, container, 0, ["sh", "-c", script], 60)

        key = re.search("NKEY SEED-+\\s+(\\w+)", (await execute(WORKER, f"cat {CREDENTIALS_FILE}"))[1])
        assert key, "the worker itself reads them"
        assert (await execute(USER, "id -u"))[1].strip() == "0", "its program is root"
        assert (await execute(WORKER, "id -u"))[1].strip() == "65532"
        tried = {name: await execute(USER, f"KEY={key[1]}; {script}") for name, script in ATTEMPTS.items()}
        assert {name: said for name, (code, said) in tried.items() if code == 0} == {}
        assert (await execute(WORKER, "test -e /tmp/serverless-framework/left"))[0] == 0, "they share this folder"
        await cluster.delete("echo-0", grace=2)
