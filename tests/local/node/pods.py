"""Pods and containers in a line each, and ways to wait for them."""

from __future__ import annotations

import asyncio
import itertools

from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.specs import ContainerSpec, PodSpec

uids = (f"pod-{number}" for number in itertools.count())


async def a_pod(runtime: PodRuntime, **fields: object) -> str:
    uid = next(uids)
    await runtime.run_pod(PodSpec(**{"uid": uid, "namespace": "default", "name": uid, **fields}))  # type: ignore[arg-type]
    return uid


def a_container(*command: str, name: str = "main", attempt: int = 0, **fields: object) -> ContainerSpec:
    return ContainerSpec(**{"name": name, "attempt": attempt, "command": list(command), **fields})  # type: ignore[arg-type]


def log_text(runtime: PodRuntime, uid: str, name: str = "main", attempt: int = 0) -> list[str]:
    lines = runtime.files(uid).log(name, attempt).read_text().splitlines()
    return [line.split(" ", 3)[3] for line in lines]


async def run(runtime: PodRuntime, *command: str, **fields: object) -> tuple[ContainerState, list[str]]:
    """Runs one container in a pod of its own to its end."""
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container(*command, **fields))  # type: ignore[arg-type]
    state = await asyncio.wait_for(runtime.wait_container(uid, "main", 0), 60)
    return state, log_text(runtime, uid)
