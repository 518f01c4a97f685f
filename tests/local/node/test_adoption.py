"""An agent that is killed at any moment loses no pod, restarts none, and leaks nothing."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

import msgspec
import pytest

from equipment.waiting import eventually
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import AlreadyRunning, PodRuntime
from gpu_runtime.local.node.specs import Mount, PodSpec
from local.node import killable_agent
from local.node.killable_agent import Goal
from local.node.machine import remains
from local.node.pods import a_container, a_pod, log_text

KILLS = 10
PODS = 20


def a_goal(number: int, ledger: Path) -> Goal:
    """Every third pod runs for ever, the others end with a code of their own; each writes down that it started."""
    uid = f"pod-{number:02d}"
    then = "exec sleep 3600" if number % 3 == 0 else f"sleep 0.{number % 10}; exit {number}"
    script = f"echo $CUDA_VISIBLE_DEVICES >> /ledger/{uid}; {then}"
    return Goal(
        pod=PodSpec(uid=uid, namespace="default", name=uid, gpus={"main": 1} if number % 3 == 0 else {}),
        container=a_container("sh", "-c", script, mounts=[Mount(source=str(ledger), target="/ledger")]),
        passing=number % 3 == 2,
    )


async def run_and_kill(data_dir: Path, goals: Path, patience: float | None) -> None:
    """Starts an agent and kills it: `patience` seconds after it has adopted, or when it is done."""
    agent = await asyncio.create_subprocess_exec(
        sys.executable, killable_agent.__file__, str(data_dir), str(goals), stdout=asyncio.subprocess.PIPE
    )
    assert agent.stdout
    try:
        assert await asyncio.wait_for(agent.stdout.readline(), 60) == b"adopted\n"
        if patience is None:
            assert await asyncio.wait_for(agent.stdout.readline(), 60) == b"done\n"
        else:
            await asyncio.sleep(patience)  # the moment of the kill is the input of this test
    finally:
        agent.kill()
        await agent.wait()


@pytest.mark.parametrize("seed", [1])
async def test_an_agent_killed_at_random_moments_loses_nothing(
    data_dir: Path, capabilities: Capabilities, seed: int
) -> None:
    ledger = data_dir.parent / "ledger"
    ledger.mkdir()
    goals = [a_goal(number, ledger) for number in range(PODS)]
    written = data_dir.parent / "goals.json"
    written.write_bytes(msgspec.json.encode(goals))
    moments = random.Random(seed)
    for _ in range(KILLS):
        await run_and_kill(data_dir, written, moments.uniform(0, 0.25))
    await run_and_kill(data_dir, written, None)
    async with PodRuntime(data_dir, capabilities, gpus=simulated(8)) as runtime:
        for number, goal in enumerate(goals):
            pod = runtime.get(goal.pod.uid)
            assert pod, goal.pod.uid
            run = pod.latest("main")
            assert run, goal.pod.uid
            assert run.state, goal.pod.uid
            if number % 3 == 0:
                assert (pod.alive, run.state["status"]) == (True, "running")
            else:
                state = await asyncio.wait_for(runtime.wait_container(goal.pod.uid, "main", 0), 60)
                assert (state["exitCode"], state["status"]) == (number, "exited")
            assert len((ledger / goal.pod.uid).read_text().splitlines()) == 1, "started more than once"
        held = [gpu for pod in runtime.pods() if pod.alive for ids in pod.gpus.values() for gpu in ids]
        told = [(ledger / goal.pod.uid).read_text().strip() for goal in goals if goal.pod.gpus]
        assert sorted(held) == sorted(told)
        assert len(set(held)) == len(held) == 7
        await runtime.shutdown()


async def test_a_container_that_ends_while_nobody_looks_is_known_to_the_next_agent(
    data_dir: Path, capabilities: Capabilities
) -> None:
    async with PodRuntime(data_dir, capabilities) as first:
        uid = await a_pod(first)
        await first.start_container(
            uid, a_container("sh", "-c", "until test -e /dev/shm/go; do sleep 0.01; done; exit 9")
        )
        await first.start_container(uid, a_container("sleep", "3600", name="other"))
    async with PodRuntime(data_dir, capabilities) as second:
        assert (await second.execute(uid, "other", 0, ["touch", "/dev/shm/go"], 60))[0] == 0
    state = data_dir / "pods" / uid / "containers" / "main" / "0" / "state.json"
    await eventually(lambda: json.loads(state.read_text())["exitCode"] == 9, what="the shim's record")
    async with PodRuntime(data_dir, capabilities) as third:
        assert (await third.wait_container(uid, "main", 0))["exitCode"] == 9
        await third.shutdown()


async def test_a_grace_period_passes_even_if_the_agent_does_not_live_to_see_it(
    data_dir: Path, capabilities: Capabilities
) -> None:
    async with PodRuntime(data_dir, capabilities) as first:
        uid = await a_pod(first)
        await first.start_container(uid, a_container("sh", "-c", "trap '' TERM; echo ready; sleep 3600"))
        await eventually(lambda: log_text(first, uid) == ["ready"], what="the trap")
        stopping = asyncio.ensure_future(first.stop_container(uid, "main", 0, grace=1))
        await asyncio.sleep(0)
        await first.execute(uid, "main", 0, ["true"], 60)
        stopping.cancel()
    async with PodRuntime(data_dir, capabilities) as second:
        state = await asyncio.wait_for(second.wait_container(uid, "main", 0), 60)
        assert state["exitCode"] == 137
        await second.shutdown()


async def test_a_second_agent_on_one_data_directory_is_refused(runtime: PodRuntime, data_dir: Path) -> None:
    with pytest.raises(AlreadyRunning, match=str(data_dir)):
        await PodRuntime(data_dir, runtime.capabilities).__aenter__()


async def test_a_graceful_stop_is_a_reboot_whose_exit_codes_and_logs_stay(
    data_dir: Path, capabilities: Capabilities
) -> None:
    async with PodRuntime(data_dir, capabilities) as first:
        uid = await a_pod(first)
        await first.start_container(uid, a_container("sh", "-c", "echo words; sleep 3600"))
        await eventually(lambda: log_text(first, uid) == ["words"], what="its output")
        await first.shutdown()
    assert remains(data_dir)["processes"] == []
    async with PodRuntime(data_dir, capabilities) as second:
        pod = second.get(uid)
        assert pod
        assert not pod.alive
        assert (await second.wait_container(uid, "main", 0))["exitCode"] == 137
        assert log_text(second, uid) == ["words"]
        await second.run_pod(pod.spec)
        assert (await second.start_container(uid, a_container("true", attempt=1)))["startedAt"] > 0
        await second.shutdown()
