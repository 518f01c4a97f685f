"""An agent that is killed again and again, while its pods run and end, serves each of them as if it had never been."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from equipment.seeds import fresh_seed
from equipment.waiting import eventually
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime
from local.node.agent_process import AgentProcess
from local.node.churn import Churn
from local.node.cluster import Cluster, conditions, main
from local.node.machine import links_of, remains

KILLS = int(os.environ.get("GPU_RUNTIME_KILLS", "50"))
SERVERS, GPU_SERVERS, TASKS, GPU_TASKS, VISITORS = 4, 4, 6, 4, 2  # 20 pods at any time
GPUS = GPU_SERVERS + GPU_TASKS
SEED = fresh_seed("GPU_RUNTIME_KILL_SEED")


async def live_and_be_killed(cluster: Cluster, data_dir: Path, capabilities: Capabilities, moments: Random) -> None:
    """One short life of an agent; every fifth may end before it is ready."""
    with AgentProcess(data_dir, cluster.kubeconfig, cluster.node, capabilities, GPUS) as agent:
        if moments.random() < 0.8:
            await agent.until_ready()
        await asyncio.sleep(moments.uniform(0, 0.4))  # the moment of the kill is the input of this test


async def test_an_agent_killed_at_any_moment_loses_no_pod_no_exit_code_and_no_gpu(
    cluster_without_runtime: Cluster, data_dir: Path, capabilities: Capabilities, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, ledger, moments = cluster_without_runtime, data_dir.parent / "ledger", Random(f"{SEED}/moments")
    ledger.mkdir()
    churn = Churn(cluster, ledger, Random(f"{SEED}/pods"))
    servers = [f"server-{number}" for number in range(SERVERS + GPU_SERVERS)]
    for number, name in enumerate(servers):
        await churn.server(name, gpu=number < GPU_SERVERS)
    async with AsyncExitStack() as survivor:
        async with churn.going_on(tasks=TASKS, gpu_tasks=GPU_TASKS, visitors=VISITORS):
            for _ in range(KILLS):
                await live_and_be_killed(cluster, data_dir, capabilities, moments)
            runtime = PodRuntime(data_dir, capabilities, gpus=simulated(GPUS))
            cluster.runtime = await survivor.enter_async_context(runtime)
            survivor.push_async_callback(runtime.shutdown)
            await survivor.enter_async_context(cluster.agent())
        with capsys.disabled():
            told = f"{KILLS} kills, {len(churn.ended)} pods ended, {len(churn.removed)} went"
            sys.stdout.write(f"\nGPU_RUNTIME_KILL_SEED={SEED}: {told}\n")
        await no_pod_was_started_twice(churn, servers)
        every_exit_code_is_known(churn)
        await no_sandbox_is_left(churn, runtime, servers)
        no_gpu_was_held_twice(churn, runtime)
    assert remains(data_dir) == {"processes": [], "mounts": [], "links": [], "cgroups": []}


async def no_pod_was_started_twice(churn: Churn, servers: list[str]) -> None:
    for name in servers:
        pod = await churn.cluster.until_ready(name)
        await eventually(partial(churn.starts, name), what=f"the word of {name}")
        assert (churn.starts(name), main(pod).restartCount, conditions(pod)["Ready"]) == (1, 0, "True"), name
    assert [each for each in churn.ended if (each.starts, each.restarts) != (1, 0)] == []


def every_exit_code_is_known(churn: Churn) -> None:
    assert len(churn.ended) >= TASKS + GPU_TASKS
    assert [each for each in churn.ended if each.code != each.expected] == []


def no_gpu_was_held_twice(churn: Churn, runtime: PodRuntime) -> None:
    assert not (churn.ledger / "twice").exists(), (churn.ledger / "twice").read_text()
    held = [gpu for pod in runtime.pods() for ids in pod.gpus.values() for gpu in ids]
    assert len(held) == len(set(held)) == GPU_SERVERS


async def no_sandbox_is_left(churn: Churn, runtime: PodRuntime, servers: list[str]) -> None:
    """Only what should run has a sandbox, a directory, a link and a cgroup on this machine."""
    wanted = sorted([(await churn.cluster.pod(name)).metadata.uid for name in servers])

    def only_they() -> bool:
        assert sorted(path.name for path in (runtime.data_dir / "pods").iterdir()) == wanted
        return sorted(pod.spec.uid for pod in runtime.pods()) == wanted

    await eventually(only_they, what="the sandboxes of pods that have gone are removed")
    assert links_of(runtime.data_dir, churn.removed) == []
    for base in set(runtime.cgroups.bases.values()):
        assert sorted(path.name for path in base.iterdir() if path.is_dir()) == wanted
