"""The stream of an invocation: what happens to it, as it happens, for a browser and for curl."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.http import live
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.messages import Body, Output, encode
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.cluster import GPU_UNITS
from local.invocations.world import INVOCATIONS_PATH, NAMESPACE, Api, World


@asynccontextmanager
async def opened(api: Api, invocation_id: str, **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    url = f"{api.process.server.url}/api/v1{INVOCATIONS_PATH}/{invocation_id}/stream"
    async with asyncio.timeout(60), api.session.get(url, headers=headers) as response:
        yield response


async def event(response: aiohttp.ClientResponse) -> tuple[str, dict[str, Any], str]:
    """The next event: its kind, data and id."""
    fields: dict[str, str] = {}
    while line := (await response.content.readline()).decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    return fields["event"], json.loads(fields["data"]), fields.get("id", "")


async def until(response: aiohttp.ClientResponse, kind: str) -> tuple[dict[str, Any], str]:
    while True:
        found, data, place = await event(response)
        if found == kind:
            return data, place


async def say(world: World, run: Run, sequence: int, data: bytes = b"") -> None:
    piece = Output(sequence=sequence, workerName="w1", data=Body.of(data, is_json=True) if data else Body())
    await world.broker.nats.publish(subjects.output(run), encode(piece))


@mutant("http/live.py", 'b" ").replace(b"\\n", b" ")', 'b" ")')
async def test_the_stream_tells_the_whole_story(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="first")
    await api.submit(function, invocationID="told")
    run = Run(function, "told", 1)
    backlog = api.process.services.serverless.backlog
    await eventually(lambda: backlog.load(function) == 2)
    async with opened(api, "told") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        kind, data, _ = await event(stream)
        assert (kind, data["position"]) == ("queued", 2)
        await start_worker(world, function)
        worker, _ = await until(stream, "worker")
        assert (worker["workerName"], worker["reason"]) == (f"fn-{function.name}-0", "AwaitingController")
        await world.end(Run(function, "first", 1))
        moved, _ = await until(stream, "queued")
        assert moved["position"] == 1
        await world.heartbeat(function, "told.1")
        running, _ = await until(stream, "running")
        assert running["workerName"] == "w1"
        await say(world, run, 1, b'{"step":\n 1}')
        output, place = await until(stream, "output")
        assert (output["output"], place) == ({"step": 1}, "1.1")
        await world.end(run, data=b'{\n"done": true\n}')
        end, place = await until(stream, "end")
        assert (end["state"], end["body"], place) == ("succeeded", {"done": True}, "1.end")
        assert await stream.content.read() == b""


async def start_worker(world: World, function: Function) -> None:
    unit = {
        "metadata": {"namespace": NAMESPACE, "name": f"fn-{function.name}-0"},
        "spec": {
            "specName": "g1.1",
            "image": "python:3.12",
            "serverless": {"enabled": True, "requestID": function.name},
        },
    }
    await world.client.create(GPU_UNITS, unit)


@mutant("http/live.py", "return web.Response(status=204)", "pass")
async def test_a_browser_that_comes_back_is_shown_the_end_once(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="back")
    await world.end(Run(function, "back", 1))
    for seen in ({}, {"Last-Event-ID": "1.3"}):
        async with opened(api, "back", **seen) as stream:
            kind, data, _ = await event(stream)
            assert (kind, data["state"]) == ("end", "succeeded")
    async with opened(api, "back", **{"Last-Event-ID": "1.end"}) as stream:
        assert stream.status == 204  # this is how EventSource is told not to connect again


async def test_a_browser_that_opens_the_address_sees_text(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="page")
    async with opened(api, "page", Accept="text/html,application/xhtml+xml,*/*;q=0.8") as stream:
        assert stream.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert (await stream.content.readline()) == b"event: queued\n"


async def test_a_stream_of_what_does_not_exist_is_a_404(api: Api) -> None:
    async with opened(api, "nothing") as stream:
        assert (stream.status, (await stream.json())["error"]["code"]) == (404, "invocation_not_found")


async def test_comments_keep_a_quiet_stream_open(world: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.1)
    function = await world.function()
    await api.submit(function, invocationID="quiet")
    async with opened(api, "quiet") as stream:
        await stream.content.readuntil(b": waiting\n\n")


async def test_the_end_comes_although_the_broker_was_restarted(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="tough")
    async with opened(api, "tough") as stream:
        assert (await event(stream))[0] == "queued"
        world.nats.kill()
        world.nats.start()
        await world.nats.wait_until_it_answers()
        async with world.nats.connection() as fresh:
            again = World(world.server, world.nats, world.client, fresh)
            await eventually(lambda: again.end(Run(function, "tough", 1)), what="the run is ended")
        end, _ = await until(stream, "end")
        assert end["state"] == "succeeded"


async def test_garbage_on_the_subject_of_the_output_is_left_out(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="noise")
    run = Run(function, "noise", 1)
    async with opened(api, "noise") as stream:
        assert (await event(stream))[0] == "queued"
        await world.broker.nats.publish(subjects.output(run), b"\xff not json")
        await say(world, run, 1, b'"a"')
        output, _ = await until(stream, "output")
        assert output["output"] == "a"
