"""Death at the n-th write: what the server has seen, and what the dead can still do."""

from __future__ import annotations

import asyncio
import signal
import sys

import aiohttp
import pytest

from equipment.fault_proxy import FaultProxy, crash_points, updates
from equipment.fault_proxy.kill import When
from unit.equipment.tiny_server import TinyServer

COLLECTION = "/api/v1/namespaces/ns/configmaps"


async def write(client: aiohttp.ClientSession, name: str) -> int:
    async with client.post(COLLECTION, json={"metadata": {"name": name}}) as answer:
        return answer.status


async def write_for_ever(client: aiohttp.ClientSession, done: list[str]) -> None:
    for number in range(1_000):
        await write(client, str(number))
        done.append(str(number))


@pytest.mark.parametrize(
    ("when", "stored", "known"),
    [
        ("before", ["0", "1"], ["0", "1"]),
        ("after", ["0", "1", "2"], ["0", "1"]),
        ("delivered", ["0", "1", "2"], ["0", "1", "2"]),
    ],
)
async def test_a_coroutine_is_cancelled_at_its_third_write(
    when: When,
    stored: list[str],
    known: list[str],
    *,
    proxy: FaultProxy,
    tiny: TinyServer,
    client: aiohttp.ClientSession,
) -> None:
    done: list[str] = []
    victim = asyncio.ensure_future(write_for_ever(client, done))
    kill = proxy.kill_at(3, victim.cancel, when)
    await kill.happened()
    await asyncio.wait([victim])
    assert list(tiny.objects) == stored
    # The task may be cancelled in the very turn in which its third answer lies ready: it cannot act on that any more.
    assert done in (known, known[:2])
    assert victim.cancelled() or isinstance(victim.exception(), aiohttp.ClientConnectionError)


@pytest.mark.parametrize("when", ["before", "after", "delivered"])
async def test_a_kill_has_happened_when_the_victim_is_dead(
    when: When, proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    dead = asyncio.Event()
    kill = proxy.kill_at(1, dead.set, when)
    writing = asyncio.ensure_future(write(client, "a"))
    await kill.happened()
    assert dead.is_set()
    kill.remove()
    await asyncio.wait([writing])
    writing.exception()
    assert await write(client, "b") == 201


async def test_the_dead_write_nothing_more_until_the_kill_is_removed(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    kill = proxy.kill_at(1, lambda: None, "before")
    for _ in range(2):
        with pytest.raises(aiohttp.ClientConnectionError):
            await write(client, "a")
    assert tiny.objects == {}
    kill.remove()
    assert await write(client, "a") == 201


async def test_a_kill_can_be_about_other_calls_than_writes(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    killed: list[str] = []
    proxy.kill_at(1, lambda: killed.append("yes"), "after", of=updates("configmaps").named("a"))
    await write(client, "a")
    assert killed == []
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.put(f"{COLLECTION}/a", json={"metadata": {"name": "a"}, "data": {"new": "yes"}})
    assert killed == ["yes"]
    assert tiny.objects["a"]["data"] == {"new": "yes"}


async def test_a_real_process_dies_of_sigkill(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    victim = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    try:
        proxy.kill_at(2, victim.pid, "after")
        assert await write(client, "a") == 201
        assert victim.returncode is None
        with pytest.raises(aiohttp.ClientConnectionError):
            await write(client, "b")
        assert await victim.wait() == -signal.SIGKILL
    finally:
        if victim.returncode is None:
            victim.kill()
            await victim.wait()
    assert set(tiny.objects) == {"a", "b"}


async def test_a_clean_run_gives_two_crash_points_a_write_and_each_is_a_state_of_its_own(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async def two_steps() -> None:
        await write(client, "a")
        await client.get(COLLECTION)
        await write(client, "b")

    await two_steps()
    points = crash_points(proxy.writes())
    assert [str(point) for point in points] == [
        "before write 1, create configmaps ns/a",
        "after write 1, create configmaps ns/a",
        "before write 2, create configmaps ns/b",
        "after write 2, create configmaps ns/b",
    ]
    left = []
    for point in points:
        tiny.objects.clear()
        victim = asyncio.ensure_future(two_steps())
        kill = proxy.kill_at(point.n, victim.cancel, point.when)
        await kill.happened()
        await asyncio.wait([victim])
        kill.remove()
        left.append(list(tiny.objects))
    assert left == [[], ["a"], ["a"], ["a", "b"]]
