"""What an agent leaves when it goes is what the next one finds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from equipment.waiting import eventually
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.runtime import AlreadyRunning, PodRuntime
from local.node.machine import links_of, remains
from local.node.pods import a_container, a_pod, log_text


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


@pytest.mark.parametrize("content", ["", '{"spec": {"uid"', "[]"], ids=["empty", "half", "other"])
async def test_a_record_that_cannot_be_read_costs_its_pod_alone(
    data_dir: Path, capabilities: Capabilities, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with PodRuntime(data_dir, capabilities) as first:
        broken, whole = await a_pod(first), await a_pod(first)
        for uid in (broken, whole):
            await first.start_container(uid, a_container("sleep", "3600", env={"DATA_DIR": str(data_dir)}))
        spec = first.get(broken)
    for name in (f"pods/{broken}/record.json", "node/network.json", "node/cgroups.json"):
        if (data_dir / name).exists():
            (data_dir / name).write_text(content)
    async with PodRuntime(data_dir, capabilities) as second:
        assert [pod.spec.uid for pod in second.pods()] == [whole]
        assert f"/{broken}/record.json cannot be read" in capsys.readouterr().out
        assert (await second.execute(whole, "main", 0, ["true"], 60))[0] == 0
        assert links_of(data_dir, [broken]) == []
        assert spec
        assert (await second.run_pod(spec.spec)).alive
        await second.shutdown()


async def test_a_state_that_cannot_be_read_is_unknown(data_dir: Path, capabilities: Capabilities) -> None:
    async with PodRuntime(data_dir, capabilities) as first:
        uid = await a_pod(first)
        await first.start_container(uid, a_container("true"))
        await first.wait_container(uid, "main", 0)
        await first.stop_pod(uid)
    (data_dir / "pods" / uid / "containers" / "main" / "0" / "state.json").write_text('{"status": "exi')
    async with PodRuntime(data_dir, capabilities) as second:
        pod = second.get(uid)
        assert pod
        assert [run.state for run in pod.runs] == [None]
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
