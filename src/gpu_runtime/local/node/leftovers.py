"""Ends the pods of a cluster that was killed, and takes its network and cgroups down, without an agent of its own."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from gpu_runtime.local.node import network
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.runtime import AlreadyRunning, PodRuntime

AGENT_SECONDS = 30.0  # an agent whose cluster was killed notices it and ends

# Nothing is started, so nothing has to be allowed.
_NOTHING = Capabilities(namespaces=0, root="machine", scratch="disk", network="machine", notes=[])


async def end_pods(data_dir: Path, grace: float) -> int:
    """Ends all pods and returns how many still ran. AlreadyRunning when an agent still uses the data directory."""
    if not (data_dir / "node").is_dir():
        return 0
    deadline = time.monotonic() + AGENT_SECONDS
    while True:
        try:
            return await _end_pods(data_dir, grace)
        except AlreadyRunning:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


async def _end_pods(data_dir: Path, grace: float) -> int:
    async with PodRuntime(data_dir, _NOTHING) as runtime:
        runtime.network = network.standing(runtime.bridge) or runtime.network
        alive = sum(pod.alive for pod in runtime.pods())
        await runtime.shutdown(grace)
    return alive
