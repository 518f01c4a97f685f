"""How long a lease is held: counted from before the request, and given up before anybody else can take it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from structlog.testing import capture_logs

from equipment.clock import FakeClock
from equipment.fault_proxy import FaultProxy, creates, updates
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, Election, Terms
from gpu_runtime.kube.lease import LEASES

TERMS = Terms(duration=10.0, give_up=7.0, retry=0.05)


def an_election(client: Client, namespace: str, clock: FakeClock, identity: str = "first") -> Election:
    return Election(client, Key(namespace, "leader"), identity, terms=TERMS, clock=clock)


@asynccontextmanager
async def keeping(election: Election) -> AsyncIterator[asyncio.Task[None]]:
    with capture_logs():
        task = asyncio.create_task(election.keep())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@mutant("kube/lease.py", "self._renewed_at + self._terms.give_up -", "self._renewed_at + self._terms.duration -")
async def test_a_leader_that_does_not_renew_stops_before_its_successor_may_begin(
    client: Client, namespace: str
) -> None:
    clock = FakeClock()
    leader, standby = an_election(client, namespace, clock), an_election(client, namespace, clock, "second")
    await leader.acquire()
    assert not await standby._try()
    clock.advance(TERMS.give_up - 0.1)
    assert leader.holds()
    clock.advance(0.1)
    assert not leader.holds()
    assert not await standby._try(), "the lease is not up yet"
    clock.advance(TERMS.duration - TERMS.give_up + 0.1)
    assert await standby._try()


@mutant("kube/lease.py", "self._renewed_at = asked_at", "self._renewed_at = self._clock.monotonic()")
async def test_a_renewal_counts_from_before_it_was_asked_for_not_from_its_answer(
    proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    clock = FakeClock()
    election = an_election(proxied, namespace, clock)
    await election.acquire()
    async with keeping(election):
        slow = fault_proxy.on(updates("leases"), times=1).hold("after")
        await slow.arrived()
        clock.advance(4.0)
        later = fault_proxy.on(updates("leases")).hold()
        slow.release()
        await later.arrived()  # the slow renewal was answered: it counts from 4 s ago
        clock.advance(2.9)
        assert election.holds()
        clock.advance(0.1)
        assert not election.holds()
        later.release()


@mutant("kube/lease.py", "self._terms.give_up) and self.holds():", "self._terms.give_up):")
async def test_a_lease_that_was_taken_too_late_to_work_on_is_renewed_before_work_begins(
    proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    clock = FakeClock()
    election = an_election(proxied, namespace, clock)
    slow = fault_proxy.on(creates("leases"), times=1).hold("after")
    with capture_logs():
        task = asyncio.create_task(election.acquire())
        await slow.arrived()
        clock.advance(TERMS.give_up)
        slow.release()
        await asyncio.wait_for(task, 60)
    assert election.holds()


@mutant("kube/lease.py", "max(self._left() / 2, self._terms.retry / 10)", "self._terms.retry")
async def test_after_a_slow_renewal_the_next_comes_in_time(
    proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    terms = Terms(duration=10.0, give_up=7.0, retry=6.0)
    clock = FakeClock()
    election = Election(proxied, Key(namespace, "leader"), "first", terms=terms, clock=clock)
    await election.acquire()
    election._renewed_at = clock.monotonic() - 6.5  # as a renewal does that took 6.5 s
    async with keeping(election):
        await fault_proxy.seen(updates("leases"), within=4)
        await eventually(lambda: (election._left()) == terms.give_up)


@mutant(
    "kube/lease.py",
    "            async with asyncio.timeout(self._terms.give_up):  # later",
    "            if True:  # later",
)
async def test_a_server_that_is_away_does_not_keep_a_process_from_ending(
    proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    election = Election(proxied, Key(namespace, "leader"), "first", terms=Terms(duration=2.0, give_up=1.0, retry=0.1))
    await election.acquire()
    away = fault_proxy.on(updates("leases")).hold()
    with capture_logs() as logs:
        await asyncio.wait_for(election.release(), 20)
    away.release()
    assert [line["problem"] for line in logs] == ["no answer in time"]


@mutant("kube/lease.py", "            self._lease = None\n            return False", "            return False")
async def test_a_leader_whose_lease_was_changed_by_hand_renews_it_all_the_same(client: Client, namespace: str) -> None:
    election = an_election(client, namespace, FakeClock())
    await election.acquire()
    await client.patch(LEASES, election.key, {"metadata": {"labels": {"changed": "by-hand"}}})
    assert not await election._try(), "the version that it knew is gone"
    assert await election._try()
