"""An agent that is killed again and again, while its pods run and end, reports each of them as if it had never been."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime
from local.node import agent_process
from local.node.cluster import Cluster, conditions, main, sh
from local.node.machine import remains

KILLS = 10
PODS = 20
SEED = 7


async def agent_for(cluster: Cluster, data_dir: Path, moments: random.Random) -> None:
    """One short life of an agent. Some end before they are ready."""
    agent = await asyncio.create_subprocess_exec(
        sys.executable, agent_process.__file__, str(data_dir), str(cluster.kubeconfig), cluster.node,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert agent.stdout
    try:
        if moments.random() < 0.8:
            async with asyncio.timeout(60):
                while (line := await agent.stdout.readline()) != b"ready\n":
                    assert line, "the agent ended before it was ready"
        # The moment of the kill is the input of this test.
        await asyncio.sleep(moments.uniform(0, 0.4))
    finally:
        agent.kill()
        await agent.wait()


async def create_pods(cluster: Cluster, ledger: Path) -> None:
    """Every third runs for ever, with a GPU; the others end with a code of their own. Each writes down its start."""
    volumes = [{"name": "ledger", "hostPath": {"path": str(ledger)}}]
    mounts = [{"name": "ledger", "mountPath": "/ledger"}]
    for number in range(PODS):
        name = f"pod-{number:02d}"
        then = "exec sleep 3600" if number % 3 == 0 else f"sleep 0.{number % 10}; exit {number}"
        script = f"echo $CUDA_VISIBLE_DEVICES >> /ledger/{name}; {then}"
        resources = {"limits": {"nvidia.com/gpu": "1"}} if number % 3 == 0 else {}
        await cluster.run(
            name, sh(script, volumeMounts=mounts, resources=resources),
            volumes=volumes, restartPolicy="Always" if number % 3 == 0 else "Never",
        )  # fmt: skip


async def test_a_killed_agent_loses_no_pod_and_no_exit_code(
    cluster_without_runtime: Cluster, data_dir: Path, capabilities: Capabilities
) -> None:
    cluster = cluster_without_runtime
    ledger = data_dir.parent / "ledger"
    ledger.mkdir()
    moments = random.Random(SEED)
    async with asyncio.TaskGroup() as group:
        group.create_task(create_pods(cluster, ledger))
        for _ in range(KILLS):
            await agent_for(cluster, data_dir, moments)
    async with PodRuntime(data_dir, capabilities, gpus=simulated(8)) as runtime:
        cluster.runtime = runtime
        async with cluster.agent():
            told = []
            for number in range(PODS):
                name = f"pod-{number:02d}"
                if number % 3 == 0:
                    pod = await cluster.until_ready(name)
                    assert (main(pod).restartCount, conditions(pod)["Ready"]) == (0, "True")
                    told.append((ledger / name).read_text().strip())
                else:
                    pod = await cluster.until(name, lambda pod: pod.status.phase in ("Succeeded", "Failed"))
                    ended = main(pod).state.terminated
                    assert ended
                    assert (ended.exitCode, main(pod).restartCount) == (number, 0)
                assert len((ledger / name).read_text().splitlines()) == 1, "started more than once"
            assert len(set(told)) == len(told), "one GPU in two pods"
        await runtime.shutdown()
        assert remains(data_dir)["processes"] == []
