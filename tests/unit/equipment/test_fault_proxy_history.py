"""What the proxy remembers, counts and shows."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from equipment.fault_proxy import (
    FaultProxy,
    History,
    calls,
    creates,
    deletes,
    lists,
    reads,
    updates,
    writes,
)
from unit.equipment.tiny_client import COLLECTION, config_map, create
from unit.equipment.tiny_server import TinyServer


async def test_calls_are_counted_and_told_apart(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    await create(client, "a")
    mark = proxy.mark()
    await client.put(f"{COLLECTION}/a", json=config_map("a"))
    await client.get(f"{COLLECTION}/a")
    await client.get(COLLECTION)
    await client.delete(f"{COLLECTION}/a")
    assert proxy.count(writes()) == 3
    assert proxy.count(writes(), since=mark) == 2
    assert proxy.count(reads("configmaps")) == 2
    assert proxy.count(updates() | deletes()) == 2
    assert proxy.count(~writes()) == 2
    assert proxy.count(calls().by("test-client").in_namespace("ns")) == 5
    assert proxy.count(calls().by("kubectl")) == 0
    assert [write.resource_version != "" for write in proxy.writes()] == [True, True, False]
    assert len({write.uid for write in proxy.writes()}) == 1


async def test_the_history_is_exported_as_lines_that_can_be_read_back(
    proxy: FaultProxy, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    proxy.on(creates().named("b")).answer(500)
    await create(client, "a")
    await create(client, "b")
    proxy.history.write_lines(tmp_path / "history.jsonl")
    first, second = map(json.loads, (tmp_path / "history.jsonl").read_text().splitlines())
    assert first["call"]["verb"] == "create"
    assert first["response"]["metadata"]["name"] == "a"
    assert second["faults"] == ["answered 500 without the server"]
    assert "answered 500" in proxy.report()


async def test_two_proxies_side_by_side_share_one_history(tiny: TinyServer) -> None:
    server, history = await tiny.start(), History()
    async with (
        FaultProxy(server, name="one", history=history) as one,
        FaultProxy(server, name="two", history=history) as two,
    ):
        for proxy in (one, two, one):
            async with aiohttp.ClientSession() as session:
                await session.get(f"{proxy.server.url}{COLLECTION}", ssl=False)
    assert [exchange.proxy for exchange in history.exchanges] == ["one", "two", "one"]
    assert (one.count(), two.count()) == (2, 1)


async def test_waiting_for_a_fault_that_does_not_happen_fails_with_the_reason(proxy: FaultProxy) -> None:
    fault = proxy.on(creates("pods")).drop_request()
    with pytest.raises(AssertionError, match="request dropped on create of pods happened 0 times, not 1"):
        await fault.happened(within=0.01)
    with pytest.raises(AssertionError, match="0 arrived, not 2"):
        await proxy.on(creates()).hold().arrived(2, within=0.01)


async def test_a_failing_test_sees_the_trace(tiny: TinyServer, capsys: pytest.CaptureFixture[str]) -> None:
    async def failing_test() -> None:
        async with FaultProxy(await tiny.start()) as proxy, aiohttp.ClientSession() as session:
            proxy.on(lists()).answer(503)
            await session.get(f"{proxy.server.url}{COLLECTION}", ssl=False)
            pytest.fail("on purpose")

    with pytest.raises(pytest.fail.Exception, match="on purpose"):
        await failing_test()
    assert "list configmaps ns: answered 503 without the server" in capsys.readouterr().err
