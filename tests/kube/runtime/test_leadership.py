"""Two managers and a frozen leader: the successor takes over, and what the woken leader still sends changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from equipment.fault_proxy import FaultProxy, calls, creates, gets, patches, writes
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import Client, NotFound
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap
from gpu_runtime.kube.lease import LEASES
from kube.runtime.copying_process import TERMS
from realkube.process import free_ports

PROCESS = Path(__file__).parent / "copying_process.py"


@asynccontextmanager
async def process(
    proxy: FaultProxy, namespace: str, identity: str, port: int = 0
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A controller process of its own that copies each parent into a child while it leads."""
    command = (sys.executable, str(PROCESS), str(proxy.server.kubeconfig), namespace, identity, str(port))
    started = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        yield started
    finally:
        if started.returncode is None:
            os.kill(started.pid, signal.SIGCONT)
            started.terminate()
            await started.communicate()


async def _holder(client: Client, namespace: str) -> str:
    try:
        return (await client.get(LEASES, Key(namespace, "leader"))).spec.holderIdentity
    except NotFound:
        return ""


def a_parent(namespace: str, name: str, text: str, **data: str) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace=namespace, labels={"role": "parent"}), data={"text": text, **data}
    )


async def _copied(client: Client, namespace: str, name: str, text: str) -> bool:
    try:
        return (await client.get(CONFIG_MAPS, Key(namespace, f"{name}-child"))).data == {"text": text}
    except NotFound:
        return False


async def test_a_frozen_leader_is_replaced_and_changes_nothing_when_it_wakes(
    client: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    async with process(fault_proxy, namespace, "first") as first:
        await eventually(lambda: _is(client, namespace, "first"))
        async with process(fault_proxy, namespace, "second"):
            await client.create(CONFIG_MAPS, a_parent(namespace, "a", "old"))
            await eventually(lambda: _copied(client, namespace, "a", "old"))

            # Frozen with a write of the old state on its way to the server.
            late = fault_proxy.on(patches("configmaps").by("first"), times=1).hold()
            await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"text": "stale"}})
            await late.arrived()
            first.send_signal(signal.SIGSTOP)

            await eventually(lambda: _is(client, namespace, "second"), what="the successor takes over")
            await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"text": "new"}})
            await client.create(CONFIG_MAPS, a_parent(namespace, "b", "new"))
            await eventually(lambda: _copied(client, namespace, "a", "new"))
            await eventually(lambda: _copied(client, namespace, "b", "new"))

            mark = fault_proxy.mark()
            late.release()
            first.send_signal(signal.SIGCONT)
            stale = (await late.finished())[0]
            assert stale.status == 409, "the late write carries the version that it was made for"
            # It is back when it campaigns again; by then it has sent all that it had.
            await fault_proxy.seen(gets("leases").by("first"), since=mark)
            assert [str(write) for write in fault_proxy.writes(writes().by("first"), since=mark) if write.applied] == []
            assert await _copied(client, namespace, "a", "new")
            assert await _is(client, namespace, "second")


async def test_a_leader_that_was_frozen_works_again_when_it_wakes(
    client: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    port = free_ports(1)[0]
    names = [f"parent-{number}" for number in range(8)]  # more than a controller has workers
    async with process(fault_proxy, namespace, "only", port) as only:
        await eventually(lambda: _is(client, namespace, "only"))
        await eventually(lambda: _ready(port))
        only.send_signal(signal.SIGSTOP)
        frozen_at = time.monotonic()
        for name in names:
            await client.create(CONFIG_MAPS, a_parent(namespace, name, "new"))
        await eventually(lambda: time.monotonic() - frozen_at > TERMS.give_up + 0.5)
        only.send_signal(signal.SIGCONT)
        for name in names:
            await eventually(lambda: _copied(client, namespace, name, "new"), what=f"{name} is copied")  # noqa: B023
        await eventually(lambda: _ready(port))
        assert only.returncode is None


async def test_a_process_whose_controller_ended_ends_with_an_error(
    client: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    async with process(fault_proxy, namespace, "only") as only:
        await eventually(lambda: _is(client, namespace, "only"))
        await client.create(CONFIG_MAPS, a_parent(namespace, "a", "", defect="yes"))
        _, errors = await asyncio.wait_for(only.communicate(), 60)
        assert only.returncode == 1
        assert "TaskEnded: controller copy ended by itself" in errors.decode()


async def _ready(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def test_a_killed_leader_is_replaced(client: Client, fault_proxy: FaultProxy, namespace: str) -> None:
    async with process(fault_proxy, namespace, "first") as first:
        await eventually(lambda: _is(client, namespace, "first"))
        async with process(fault_proxy, namespace, "second"):
            kill = fault_proxy.kill_at(
                1, first.pid, "after", of=creates("configmaps").by("first"), client=calls().by("first")
            )
            await client.create(CONFIG_MAPS, a_parent(namespace, "a", "1"))
            await kill.happened()
            await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"text": "2"}})
            await eventually(lambda: _copied(client, namespace, "a", "2"))
            await first.communicate()


async def test_a_process_ends_in_order_on_sigterm(client: Client, fault_proxy: FaultProxy, namespace: str) -> None:
    async with process(fault_proxy, namespace, "first") as first:
        await eventually(lambda: _is(client, namespace, "first"))
        first.terminate()
        _, said = await first.communicate()
        assert first.returncode == 0, said.decode()
        assert await _holder(client, namespace) == ""


async def _is(client: Client, namespace: str, identity: str) -> bool:
    return await _holder(client, namespace) == identity
