"""A node agent as a process of its own, for tests to kill."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.local.node.agent.agent import NodeOptions, node_agent
from gpu_runtime.local.node.capabilities import decide, probe
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime


async def main(data_dir: Path, kubeconfig: Path, name: str) -> None:
    runtime = PodRuntime(data_dir, decide(probe(data_dir)), gpus=simulated(8))
    options = NodeOptions(name=name, schedulable=False)
    async with Client(load_config(kubeconfig)) as client, runtime, node_agent(client, runtime, options):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
