"""A leader that was in doubt stops, campaigns anew and works again; one that cannot work ends its process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from equipment.clock import FakeClock
from equipment.fault_proxy import FaultProxy, calls, updates, watches
from equipment.mutation import mutant
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, Election, Manager, Query, Result, Terms, load_config, primary
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.errors import TaskEnded
from gpu_runtime.kube.lease import LEASES
from kube.runtime.test_manager import a_parent, copying, parents, running

NAMES = [f"parent-{number}" for number in range(8)]  # more than a controller has workers


def is_ready(manager: Manager) -> bool:
    return not any(manager.checks().values())


async def all_copied(client: Client, namespace: str) -> bool:
    copies = {child.metadata.name for child in (await client.list(Query(CONFIG_MAPS, namespace))).items}
    return {f"{name}-child" for name in NAMES} <= copies


@mutant("kube/lease.py", "if self._renewed_at is None or self.holds():", "if True:")
@mutant("kube/controller.py", "                await self._doubt()\n                continue", "                return")
@mutant("kube/manager.py", "if self.leading.is_set() and not election.holds():", "if False:")
async def test_a_renewal_that_is_answered_late_ends_the_term_and_the_next_term_works(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    clock = FakeClock()
    terms = Terms(duration=10.0, give_up=7.0, retry=0.05)
    election = Election(proxied, Key(namespace, "leader"), "only", terms=terms, clock=clock)
    manager = copying(Manager(proxied, election=election), namespace)
    with capture_logs() as logs:
        async with running(manager):
            await eventually(lambda: manager.leading.is_set() and is_ready(manager))
            begun = fault_proxy.on(updates("leases"), times=1).hold()
            await begun.arrived()
            clock.advance(2.0)
            late = fault_proxy.on(updates("leases"), times=1).hold()
            begun.release()
            await late.arrived()  # asked 2 s after the one before it, which now grows too old
            clock.advance(5.5)
            assert not is_ready(manager), "a leader in doubt works no more"
            for name in NAMES:
                await client.create(CONFIG_MAPS, a_parent(namespace, name))
            await eventually(lambda: len(manager.cache(parents(namespace))) == len(NAMES))
            late.release()
            await eventually(lambda: all_copied(client, namespace), what="the next term works")
            assert is_ready(manager)
    assert [line["event"] for line in logs if line["event"] in ("leading", "no longer leading")] == [
        "leading",
        "no longer leading",
        "leading",
    ]


@asynccontextmanager
async def nothing_passes(proxy: FaultProxy) -> AsyncIterator[None]:
    held, frozen = proxy.on(calls()).hold(), proxy.on(watches()).freeze()
    try:
        yield
    finally:
        held.release()
        frozen.thaw()


@asynccontextmanager
async def stopped(server: ApiServer) -> AsyncIterator[None]:
    with server.paused():
        yield


@pytest.mark.parametrize("how", ["nothing passes the proxy", "the server's process is stopped"])
async def test_after_a_pause_of_the_api_server_the_leader_works_again(
    api_server: ApiServer, client: Client, fault_proxy: FaultProxy, namespace: str, how: str
) -> None:
    by_signal = how == "the server's process is stopped"
    if by_signal and api_server.process_id is None:
        pytest.skip("the server is not ours to stop")
    terms = Terms(duration=6.0, give_up=3.0, retry=2.5)  # the renewal under way is answered after the term has ended
    done: list[str] = []

    async with Client(load_config((api_server if by_signal else fault_proxy.server).kubeconfig)) as own:
        election = Election(own, Key(namespace, "leader"), "only", terms=terms)
        manager = Manager(own, election=election)
        cache = manager.cache(parents(namespace))

        async def reconcile(key: Key) -> Result:
            done.append(key.name)
            return Result(requeue_after=0.05)  # so that every worker asks for permission during the pause

        manager.controller("look", reconcile, [primary(cache)])
        for name in NAMES:
            await client.create(CONFIG_MAPS, a_parent(namespace, name))
        with capture_logs():
            async with running(manager):
                await eventually(lambda: set(done) == set(NAMES))
                await renewed(client, namespace)
                async with stopped(api_server) if by_signal else nothing_passes(fault_proxy):
                    await eventually(lambda: not election.holds())
                    stopped_at = time.monotonic()
                    await eventually(lambda: time.monotonic() - stopped_at > 0.5)
                    assert not is_ready(manager)
                    done.clear()
                await eventually(lambda: set(done) == set(NAMES), what="every object is reconciled again")
                await eventually(lambda: manager.leading.is_set() and is_ready(manager))


async def renewed(client: Client, namespace: str) -> None:
    """Returns right after a renewal of the lease."""
    key = Key(namespace, "leader")
    before = (await client.get(LEASES, key)).metadata.resourceVersion

    async def moved() -> bool:
        return (await client.get(LEASES, key)).metadata.resourceVersion != before

    await eventually(moved)


@mutant("kube/manager.py", "    if must_last():\n", "    if False:\n")
async def test_a_controller_that_ends_while_its_process_leads_ends_the_process(client: Client, namespace: str) -> None:
    manager = copying(Manager(client), namespace)
    task = asyncio.create_task(manager.run(asyncio.Event()))
    await eventually(lambda: manager.leading.is_set() and is_ready(manager))
    with capture_logs() as logs:
        manager._controllers[0].stop()
        with pytest.raises(ExceptionGroup) as ended:
            await asyncio.wait_for(task, 60)
    assert ended.group_contains(TaskEnded, match="controller copy ended by itself")
    assert [line["part"] for line in logs if line["log_level"] == "critical"] == ["controller copy"]


@mutant("kube/manager.py", "if self.leading.is_set() is controller.running:", "if True:")
async def test_a_leader_whose_controller_does_not_run_is_not_ready(client: Client, namespace: str) -> None:
    manager = copying(Manager(client), namespace)
    async with running(manager):
        await eventually(lambda: manager.leading.is_set() and is_ready(manager))
        copy = manager._controllers[0]
        copy.running = False
        assert manager.checks()["controller copy"] == "not running although this process leads"
        copy.running = True
        assert is_ready(manager)
        manager.leading.clear()
        assert manager.checks()["controller copy"] == "still finishing the work of a lost term"
        manager.leading.set()


@mutant("kube/manager.py", "background.create_task(_lasting(name, work))", "background.create_task(work)")
async def test_a_cache_that_ends_quietly_ends_the_process(client: Client, namespace: str) -> None:
    manager = copying(Manager(client), namespace)

    def cancelled_from_within(_: object) -> None:
        raise asyncio.CancelledError

    manager.cache(parents(namespace)).subscribe(cancelled_from_within)
    task = asyncio.create_task(manager.run(asyncio.Event()))
    await eventually(manager.leading.is_set)
    with capture_logs():
        await client.create(CONFIG_MAPS, a_parent(namespace))
        with pytest.raises(ExceptionGroup) as ended:
            await asyncio.wait_for(task, 60)
    assert ended.group_contains(TaskEnded, match=r"the cache of configmaps .* ended by itself")


@mutant("kube/lease.py", "            self._trouble = str(error)", "            str(error)")
async def test_a_standby_that_cannot_reach_the_lease_is_not_ready(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    terms = Terms(duration=8.0, give_up=6.0, retry=0.1)
    leader = Manager(client, election=Election(client, Key(namespace, "leader"), "first", terms=terms))
    standby = Manager(proxied, election=Election(proxied, Key(namespace, "leader"), "second", terms=terms))
    with capture_logs():
        async with running(leader):
            await eventually(leader.leading.is_set)
            async with running(standby):
                await eventually(lambda: is_ready(standby))
                away = fault_proxy.on(calls("leases")).answer(503)
                await eventually(lambda: not is_ready(standby))
                assert "leases" in str(standby.checks()[f"lease {namespace}/leader"])
                away.remove()
                await eventually(lambda: is_ready(standby))


async def test_a_process_that_ends_says_that_it_is_not_ready(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    held = fault_proxy.on(calls("configmaps").where(lambda call: call.verb == "create")).hold()
    stop, manager = asyncio.Event(), copying(Manager(proxied), namespace)
    task = asyncio.create_task(manager.run(stop))
    await client.create(CONFIG_MAPS, a_parent(namespace))
    await held.arrived()
    assert is_ready(manager)
    stop.set()
    assert manager.checks()["process"] == "ending"
    held.release()
    await task


@mutant("kube/manager.py", "if work and not lost:", "if work:")
async def test_a_reconcile_that_still_runs_when_the_lease_is_lost_is_stopped_at_once(
    client: Client, namespace: str
) -> None:
    key = Key(namespace, "leader")
    election = Election(client, key, "old", terms=Terms(duration=10.0, give_up=7.0, retry=0.05))
    manager = Manager(client, election=election, drain_seconds=120.0)
    cache = manager.cache(parents(namespace))
    begun, stopped_early = asyncio.Event(), asyncio.Event()

    async def reconcile(_: Key) -> Result:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped_early.set()
            raise
        return Result()

    manager.controller("look", reconcile, [primary(cache)], deadline=600.0)
    await client.create(CONFIG_MAPS, a_parent(namespace, "parent"))
    with capture_logs():
        async with running(manager):
            await eventually(begun.is_set, what="a reconcile runs")
            lease = await client.get(LEASES, key)
            successor = {"metadata": {"name": key.name}, "spec": {"holderIdentity": "successor"}}
            await client.patch(LEASES, lease.metadata.key, successor)
            await eventually(stopped_early.is_set, what="the reconcile was stopped")
