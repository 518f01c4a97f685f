"""A job that is longer than any AckWait runs once; a framework that always crashes ends in a dead letter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from equipment import servers
from equipment.nats import NatsServer, free_port
from equipment.servers import ApiServer
from equipment.waiting import eventually
from faults.serverless.installation import FUNCTION, Installation, Worker, running
from faults.serverless.life import executions
from gpu_runtime.cmd.up.install import install

ACK_WAIT_SECONDS = 10.0
JOB_SECONDS = 90
ATTEMPTS = 3
PATIENCE = 300.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with servers.start_embedded(tmp_path) as running_server:
        asyncio.run(install(running_server.kubeconfig))
        yield running_server


@asynccontextmanager
async def installed(server: ApiServer, folder: Path, session: aiohttp.ClientSession) -> AsyncIterator[Installation]:
    nats = NatsServer(folder / "nats", free_port())
    nats.start()
    try:
        await nats.wait_until_it_answers()
        results = {"database": f"sqlite:///{folder}/results.db"}
        installation = Installation(
            folder,
            server.kubeconfig,
            {"url": nats.settings.url},
            results,
            {"broker": nats},
            ack_wait_seconds=ACK_WAIT_SECONDS,
            max_attempts=ATTEMPTS,
        )
        async with running(installation, session):
            yield installation
    finally:
        nats.kill()


async def test_a_job_of_ninety_seconds_runs_once(server: ApiServer, tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session, installed(server, tmp_path, session) as installation:
        await submit(session, installation, "long", {"seconds": JOB_SECONDS})
        end = await ended(session, installation, "long")
        assert (end["state"], end["attempts"]) == ("succeeded", 1)
        assert executions(installation.executions)["long"] == 1


async def test_a_crashing_framework_ends_in_a_dead_letter_that_succeeds_after_a_fix(
    server: ApiServer, tmp_path: Path
) -> None:
    fixed = tmp_path / "fixed"
    async with aiohttp.ClientSession() as session, installed(server, tmp_path, session) as installation:
        kubelet = asyncio.create_task(keep_frameworks(installation))
        try:
            await submit(session, installation, "crash", {"seconds": 0, "exits_without": str(fixed)})
            end = await ended(session, installation, "crash")
            assert (end["state"], end["failureClass"]) == ("dead_lettered", "retry_exhausted")
            assert end["attempts"] == executions(installation.executions)["crash"] == ATTEMPTS
            assert "closed the connection" in end["error"]

            letters = await eventually(lambda: dead_letters(session, installation), within=PATIENCE)
            assert [each["invocationID"] for each in letters] == ["crash"]
            fixed.touch()
            path = f"/serverless/invocations/crash/retry?function={FUNCTION}"
            async with session.post(installation.apis[0] + path) as response:
                assert response.status in (200, 202), await response.text()
            again = await ended(session, installation, "crash", run=2)
            assert (again["state"], again["attempts"]) == ("succeeded", 1)
        finally:
            kubelet.cancel()


async def keep_frameworks(installation: Installation) -> None:
    while True:
        for victim in installation.victims.values():
            if isinstance(victim, Worker):
                victim.programs[0].start_again_if_it_ended()
        await asyncio.sleep(0.2)


async def submit(session: aiohttp.ClientSession, installation: Installation, name: str, payload: Any) -> None:
    body = {"serverlessRequestID": FUNCTION, "invocationID": name, "payload": payload}
    async with session.post(f"{installation.apis[0]}/serverless/invocations", json=body) as response:
        assert response.status == 202, await response.text()


async def ended(session: aiohttp.ClientSession, installation: Installation, name: str, run: int = 1) -> dict[str, Any]:
    """The record when the run has ended."""
    url = f"{installation.apis[0]}/serverless/invocations/{name}?function={FUNCTION}"

    async def probe() -> dict[str, Any]:
        async with session.get(url) as response:
            data: dict[str, Any] = (await response.json())["data"]
        assert data["state"] not in ("queued", "running"), data
        assert data.get("run", 1) == run, data
        return data

    return await eventually(probe, within=PATIENCE, what=f"{name} has ended")


async def dead_letters(session: aiohttp.ClientSession, installation: Installation) -> list[dict[str, Any]]:
    async with session.get(f"{installation.apis[0]}/serverless/dead-letters") as response:
        found: list[dict[str, Any]] = (await response.json())["data"]
        return found
