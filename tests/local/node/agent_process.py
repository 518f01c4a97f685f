"""A node agent as a process of its own, for tests to kill; forked from one that has the code loaded already."""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Self

from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.local.node.agent.agent import NodeOptions, node_agent
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime


class AgentProcess:
    """One life of an agent, begun at once; leaving the block kills it."""

    def __init__(self, data_dir: Path, kubeconfig: Path, node: str, capabilities: Capabilities, gpus: int) -> None:
        forking = multiprocessing.get_context("forkserver")
        # Most of a life would go into imports and probes otherwise, in which there is nothing to interrupt.
        forking.set_forkserver_preload([__name__])
        self._told, tell = forking.Pipe(duplex=False)
        arguments = (data_dir, kubeconfig, node, capabilities, gpus, tell)
        self._process: ForkServerProcess = forking.Process(target=_run, args=arguments)
        self._process.start()
        tell.close()

    async def until_ready(self) -> None:
        assert await asyncio.to_thread(self._told.poll, 60), "the agent is not ready in a minute"
        try:
            self._told.recv()
        except EOFError:
            raise AssertionError("the agent ended before it was ready") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._told.close()
        self._process.close()


def _run(data_dir: Path, kubeconfig: Path, node: str, capabilities: Capabilities, gpus: int, tell: Connection) -> None:
    async def agent() -> None:
        runtime = PodRuntime(data_dir, capabilities, gpus=simulated(gpus))
        options = NodeOptions(name=node, schedulable=False)
        async with Client(load_config(kubeconfig)) as client, runtime, node_agent(client, runtime, options):
            tell.send("ready")
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(agent())
