"""Watches over HTTP: a client that applies all events has the right units, and watches do not block requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import ClientResponse

from equipment.fault_proxy import FaultProxy, creates, watches
from equipment.judge import orphans
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.config import ApiLimits
from gpu_runtime.service.cluster import GPU_UNITS
from kube.http.api import Api, Places, unit_request
from kube.http.test_units import events

PATH = "/gpu-units"
WATCHES = 150  # more than the connections that a client of Kubernetes has for its requests


@asynccontextmanager
async def watch(api: Api, query: str = "", since: str = "") -> AsyncIterator[ClientResponse]:
    headers = {"Last-Event-ID": since} if since else {}
    url = f"{api.url}/api/v1{PATH}?watch=true&timeoutSeconds=600{query}"
    async with asyncio.timeout(240), api.session.get(url, headers=headers) as stream:
        assert stream.status == 200, await stream.text()
        yield stream


async def until(stream: ClientResponse, kind: str, name: str = "") -> list[tuple[str, str]]:
    """Kind and unit of each event up to the one that is waited for."""
    seen = []
    async for event in events(stream):
        seen.append((event["event"], json.loads(event["data"]).get("name", "")))
        if seen[-1] == (kind, name):
            break
    return seen


async def set_phase(world: Places, name: str, phase: str) -> None:
    status = {"phase": phase, "observedGeneration": 1}
    await world.client.patch(GPU_UNITS, Key(world.instance, name), {"status": status}, subresource="status")


@mutant("service/watching.py", "                if has_objects:\n", "                if False:\n")
@mutant("service/feed.py", "return version >= self._floor", "return True")
async def test_a_watch_from_a_version_that_is_forgotten_says_that_all_is_told_anew(api: Api, world: Places) -> None:
    await world.seed(api, 1)
    await api.post(PATH, unit_request("one", "one"))
    async with watch(api, since="1") as stream:
        assert await until(stream, "bookmark") == [("reset", ""), ("added", "one"), ("bookmark", "")]


async def test_a_watch_from_a_version_that_the_server_has_not_reached_says_that_all_is_told_anew(
    api: Api, world: Places
) -> None:
    """After a restore from backup clients have ids that mean nothing any more."""
    await world.seed(api, 1)
    await api.post(PATH, unit_request("one", "one"))
    async with watch(api, since="999999999999") as stream:
        assert await until(stream, "bookmark") == [("reset", ""), ("added", "one"), ("bookmark", "")]


async def test_a_unit_that_went_while_the_cache_could_not_follow_does_not_stay_with_a_watcher(
    world: Places, fault_proxy: FaultProxy
) -> None:
    """The watcher's own list is live and may be ahead of the cache, which then misses changes by listing anew."""
    async with world.api(fault_proxy.server) as api:
        await world.seed(api, 2)
        frozen = fault_proxy.on(watches("gpuunits")).freeze(discard=True)
        for name in ("one", "two"):
            assert (await api.post(PATH, unit_request(name, name))).status == 201
        await set_phase(world, "two", "Ready")
        async with watch(api) as every, watch(api, "&phase=Ready") as ready:
            assert await until(every, "bookmark") == [("added", "one"), ("added", "two"), ("bookmark", "")]
            assert await until(ready, "bookmark") == [("added", "two"), ("bookmark", "")]
            await world.client.delete(GPU_UNITS, Key(world.instance, "one"))
            await set_phase(world, "two", "Failed")
            fault_proxy.on(watches("gpuunits"), times=1).answer(410)
            (await fault_proxy.stream(watches("gpuunits"))).cut()
            frozen.remove()
            assert await until(every, "bookmark") == [("reset", ""), ("added", "two"), ("bookmark", "")]
            assert await until(ready, "bookmark") == [("reset", ""), ("bookmark", "")]


async def test_a_watch_by_phase_tells_when_a_unit_leaves_the_phase(api: Api, world: Places) -> None:
    await world.seed(api, 1)
    await api.post(PATH, unit_request("one", "one"))
    async with watch(api, "&phase=Ready") as ready, watch(api, "&phase=Failed") as failed:
        assert await until(ready, "bookmark") == [("bookmark", "")]
        assert await until(failed, "bookmark") == [("bookmark", "")]
        await set_phase(world, "one", "Ready")
        assert await until(ready, "added", "one") == [("added", "one")]
        await set_phase(world, "one", "Failed")
        assert await until(ready, "deleted", "one") == [("deleted", "one")]
        assert await until(failed, "added", "one") == [("added", "one")]
        await api.delete(f"{PATH}/one")
        assert (await until(failed, "deleted", "one"))[-1] == ("deleted", "one")


async def test_an_api_with_many_open_watches_still_answers_and_each_sees_each_change(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api, AsyncExitStack() as stack:
        await world.seed(api, 2)
        api.session.connector._limit = 0  # type: ignore[union-attr]  # the client's own bound is not the question
        streams = [await stack.enter_async_context(watch(api)) for _ in range(WATCHES)]
        for stream in streams:
            await until(stream, "bookmark")
        async with asyncio.timeout(120):
            for name in ("one", "two"):
                assert (await api.post(PATH, unit_request(name, name))).status == 201
            assert (await api.get(f"{PATH}/nobody")).status == 404  # read live
        for stream in streams:
            assert ("added", "one") in await until(stream, "added", "two")


@mutant("http/deadline.py", "async with asyncio.timeout(seconds)", "async with asyncio.timeout(None)")
async def test_a_request_whose_calls_add_up_is_told_to_come_again_and_the_same_request_goes_on(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server, limits=ApiLimits(requestSeconds=2)) as api:
        await world.seed(api, 1)
        held = fault_proxy.on(creates("gpuunits").in_namespace(world.instance), times=1).hold()
        asked = asyncio.create_task(api.post(PATH, unit_request()))
        await held.arrived()
        answer = await asyncio.wait_for(asked, 120)
        assert (answer.status, answer.code) == (503, "service_unavailable"), answer
        assert int(answer.headers["Retry-After"]) > 0
        held.release()

        async def made() -> Any:
            return (await api.post(PATH, unit_request())).status in (200, 201)

        await eventually(made, what="the same request has made its unit")
        assert [unit.metadata.name for unit in await world.units(world.instance)] == ["demo"]
        await eventually(lambda: no_stock(world), what="the stock that was handed over is gone")
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def no_stock(world: Places) -> bool:
    return await world.units(world.stock) == []
