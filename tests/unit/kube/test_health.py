from __future__ import annotations

import asyncio

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from equipment.mutation import mutant
from gpu_runtime.errors import ConfigError
from gpu_runtime.kube.health import Health, serve


async def test_a_port_that_is_taken_is_one_clear_line() -> None:
    async with serve(Health(), "127.0.0.1", 0) as port:
        with pytest.raises(ConfigError, match=f"^cannot listen on 127.0.0.1:{port}: "):
            async with serve(Health(), "127.0.0.1", port):
                pass


async def test_a_host_that_can_be_no_name_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match=r"^cannot listen on a\.\.b:0: a\.\.b is not a host name$"):
        async with serve(Health(), "a..b", 0):
            pass


@mutant("kube/health.py", "if not self._checks:", "if False:")
@mutant("kube/health.py", "if self._ending():", "if False:")
def test_a_process_is_ready_after_its_first_checks_until_it_ends() -> None:
    ending = False
    health = Health(lambda: ending)
    assert health.problems() == {"process": "starting"}
    health.add(lambda: {"cache of pods": "not filled", "cache of nodes": None})
    health.add()
    assert health.problems() == {"cache of pods": "not filled"}
    ending = True
    assert health.problems() == {"cache of pods": "not filled", "process": "ending"}


async def test_a_path_may_be_answered_when_something_has_happened() -> None:
    health, happened = Health(), asyncio.Event()

    async def wait() -> None:
        await happened.wait()

    health.waits["/drained"] = wait
    async with serve(health, "127.0.0.1", 0) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        asked = asyncio.create_task(session.get("/drained"))
        assert (await session.get("/healthz")).status == 200
        assert not asked.done()
        happened.set()
        assert (await asked).status == 200
        assert (await session.get("/unknown")).status == 404


def test_metrics_of_all_parts_are_in_one_answer() -> None:
    health = Health()
    for name in ("requests", "restarts"):
        registry = CollectorRegistry()
        Counter(name, "A count.", registry=registry).inc()
        health.add(registry=registry)
    assert b"requests_total 1.0" in health.metrics()
    assert b"restarts_total 1.0" in health.metrics()
