"""Each fault of a request, seen from both sides: what the server got and what the client got."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from equipment.fault_proxy import (
    FaultProxy,
    calls,
    creates,
    gets,
    lists,
    writes,
)
from unit.equipment.tiny_client import COLLECTION, config_map, create, lost
from unit.equipment.tiny_server import TinyServer


async def test_a_request_arrives_as_it_was_sent_and_the_answer_as_it_was_given(
    client: aiohttp.ClientSession,
) -> None:
    headers = [("X-Twice", "a"), ("X-Twice", "b"), ("Content-Type", "application/merge-patch+json")]
    async with client.patch("/echo/a%2Fb?q=%20x&q=2", data="{}", headers=headers) as answer:
        seen = await answer.json()
        assert answer.status == 418
        assert answer.headers.getall("Warning") == ["one", "two"]
    assert seen["method"] == "PATCH"
    assert seen["raw_path"] == "/echo/a%2Fb?q=%20x&q=2"
    assert seen["body"] == "{}"
    assert [value for name, value in seen["headers"] if name == "X-Twice"] == ["a", "b"]
    assert ["Authorization", "Bearer secret"] in seen["headers"]
    assert ["User-Agent", "test-client"] in seen["headers"]
    assert ["Content-Type", "application/merge-patch+json"] in seen["headers"]


async def test_a_large_body_passes_whole_both_ways(client: aiohttp.ClientSession) -> None:
    async with client.post("/echo/large", data="x" * 300_000) as answer:
        assert len((await answer.json())["body"]) == 300_000


async def test_a_dropped_request_never_reaches_the_server(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    fault = proxy.on(creates("configmaps"), times=1).drop_request()
    await lost(create(client, "a"))
    assert tiny.objects == {}
    [write] = proxy.writes()
    assert (write.sent, write.status, write.answered, write.applied) == (False, None, None, False)
    assert fault.hits == [write]
    assert await create(client, "a") == 201


async def test_a_dropped_response_leaves_the_write_done(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    proxy.on(writes("configmaps"), nth=2).drop_response()
    assert await create(client, "a") == 201
    await lost(create(client, "b"))
    assert set(tiny.objects) == {"a", "b"}
    first, second = proxy.writes()
    assert first.delivered
    assert second.applied
    assert not second.delivered
    assert second.uid == tiny.objects["b"]["metadata"]["uid"]
    assert await create(client, "b") == 409


async def test_a_held_request_reaches_the_server_only_when_released(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    held = proxy.on(creates(), times=1).hold()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(create(client, "a"))
        [exchange] = await held.arrived()
        assert tiny.requests == []
        assert await create(client, "b") == 201
        assert exchange.call.name == "a"
        held.release()
        assert await waiting == 201
    assert list(tiny.objects) == ["b", "a"]


async def test_a_held_response_is_of_a_write_that_is_done(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    held = proxy.on(creates(), times=1).hold("after")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(create(client, "a"))
        await held.arrived()
        assert set(tiny.objects) == {"a"}
        assert not waiting.done()
        held.release()
        assert await waiting == 201


async def test_a_held_request_can_be_dropped_or_answered_instead(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    dropped = proxy.on(creates().named("a"), times=1).hold()
    refused = proxy.on(creates().named("b"), times=1).hold()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(lost(create(client, "a")))
        second = group.create_task(create(client, "b"))
        await dropped.arrived()
        await refused.arrived()
        dropped.drop()
        refused.answer(409, "AlreadyExists")
        await first
        assert await second == 409
    assert tiny.requests == []


async def test_a_held_request_goes_on_when_released_after_its_client_has_left(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    held = proxy.on(creates(), times=1).hold()
    waiting = asyncio.ensure_future(create(client, "a"))
    await held.arrived()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await proxy.seen(creates())
    held.release()
    [exchange] = await held.finished()
    assert set(tiny.objects) == {"a"}
    assert (exchange.status, exchange.answered) == (201, None)


async def test_a_postponed_request_is_refused_now_and_done_later(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    late = proxy.on(creates(), times=1).postpone(504)
    assert await create(client, "a") == 504
    await late.arrived()
    assert tiny.objects == {}
    late.release()
    [exchange] = await late.finished()
    assert set(tiny.objects) == {"a"}
    assert (exchange.status, exchange.answered, exchange.delivered) == (201, 504, False)


async def test_a_made_up_answer_asks_no_server_and_carries_its_headers(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    proxy.on(writes(), times=1).answer(429, headers={"Retry-After": "1"})
    async with client.post(COLLECTION, json=config_map("a")) as answer:
        body = await answer.json()
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    assert (body["kind"], body["reason"], body["code"]) == ("Status", "TooManyRequests", 429)
    assert tiny.requests == []
    assert await create(client, "a") == 201


async def test_a_rewritten_status_hides_a_write_that_was_done(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    proxy.on(creates(), times=1).rewrite_status(500)
    assert await create(client, "a") == 500
    assert set(tiny.objects) == {"a"}
    [write] = proxy.writes()
    assert (write.status, write.answered, write.applied, write.delivered) == (201, 500, True, False)


@pytest.mark.parametrize(("answer", "status"), [("first", 201), ("second", 409)])
async def test_a_duplicated_request_reaches_the_server_twice(
    answer: Any, status: int, proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    proxy.on(creates(), times=1).duplicate(answer)
    assert await create(client, "a") == status
    assert tiny.methods == ["POST", "POST"]
    assert [write.status for write in proxy.writes()] == [201, 409]
    assert [write.delivered for write in proxy.writes()] == [answer == "first", answer == "second"]


async def test_a_delayed_request_still_arrives(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    fault = proxy.on(creates(), times=1).delay(0.01)
    assert await create(client, "a") == 201
    assert len(fault.hits) == 1


async def test_a_rewritten_request_is_what_the_server_stores(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    proxy.on(creates()).rewrite_request(lambda document: {**document, "data": {"injected": "yes"}})
    await create(client, "a")
    assert tiny.objects["a"]["data"] == {"injected": "yes"}


async def test_a_rewritten_list_shows_items_that_the_server_does_not_have(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    await create(client, "a")
    proxy.on(lists("configmaps"), times=1).rewrite_list(lambda items: [*items, {"metadata": "unreadable"}])
    async with client.get(COLLECTION) as answer:
        assert [item["metadata"] for item in (await answer.json())["items"]][1] == "unreadable"
    async with client.get(COLLECTION) as answer:
        assert len((await answer.json())["items"]) == 1


async def test_a_recorded_list_can_be_served_again(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    async with client.get(COLLECTION) as answer:
        before = await answer.json()
    await create(client, "a")
    proxy.on(lists(), times=1).answer(200, proxy.calls(lists())[0].response)
    async with client.get(COLLECTION) as answer:
        assert await answer.json() == before


async def test_an_unreachable_server_looks_like_a_broken_connection(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    await tiny.stop()
    await lost(create(client, "a"))
    [write] = proxy.writes()
    assert (write.sent, write.status) == (True, None)
    assert "no answer from" in proxy.trace[-1]


async def test_a_write_that_the_server_hung_up_on_is_not_repeated_behind_the_history(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    tiny.hangs_up_on = {"PUT"}
    await create(client, "a")
    await lost(client.put(f"{COLLECTION}/a", json=config_map("a")))
    assert tiny.methods == ["POST", "PUT"]


async def test_a_lost_connection_is_a_reset_and_not_an_orderly_end(proxy: FaultProxy) -> None:
    proxy.on(calls()).drop_request()
    address = urlsplit(proxy.server.url)
    trust = ssl.create_default_context(cafile=proxy.server.ca_file)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=trust)
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_a_rule_picks_the_nth_and_its_followers(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    proxy.on(creates(), nth=2, times=2).answer(503)
    assert [await create(client, name) for name in "abcd"] == [201, 503, 503, 201]


async def test_a_rule_can_count_each_object_on_its_own(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    proxy.on(creates(), times=1, per_object=True).answer(409)
    assert [await create(client, name) for name in "abab"] == [409, 409, 201, 201]


async def test_a_share_of_calls_is_the_same_for_the_same_seed(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    outcomes = []
    for _ in range(2):
        fault = proxy.on(gets(), chance=0.5, seed=7).answer(500)
        outcomes.append([(await client.get(f"{COLLECTION}/x")).status for _ in range(20)])
        fault.remove()
    assert outcomes[0] == outcomes[1]
    assert set(outcomes[0]) == {404, 500}


async def test_a_removed_fault_is_over_and_lets_go_what_it_held(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    proxy.on(creates().named("a")).hold()
    refusing = proxy.on(creates().named("b")).answer(500)
    waiting = asyncio.ensure_future(create(client, "a"))
    assert await create(client, "b") == 500
    await refusing.happened()
    proxy.remove_faults()
    assert await waiting == 201
    assert await create(client, "b") == 201


async def test_two_faults_on_one_call_wrap_each_other(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    proxy.on(creates(), times=1).drop_response()
    proxy.on(creates(), times=1).duplicate()
    await lost(create(client, "a"))
    assert tiny.methods == ["POST", "POST"]


async def test_a_connection_upgrade_is_refused_in_clear_words(client: aiohttp.ClientSession) -> None:
    async with client.get("/echo/exec", headers={"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}) as answer:
        assert (answer.status, await answer.text()) == (501, "the fault proxy forwards no connection upgrades")
