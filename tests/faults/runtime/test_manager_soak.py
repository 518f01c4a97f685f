"""Two managers whose API server pauses, cuts and delays them at random: what they look after converges every time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from equipment.fault_proxy import FaultProxy
from equipment.servers import ApiServer
from equipment.soak import Soak
from equipment.waiting import LONGEST_PAUSE, eventually
from faults.runtime.mischief import Mischief, passed, together
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, Election, Manager, Terms, load_config
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.controller import WORKERS, Controller
from kube.runtime.test_manager import a_parent, children_of, copying

FAULTS = 200
TERMS = Terms(duration=1.0, give_up=0.7, retry=0.1)
NAMES = [f"parent-{number}" for number in range(8)]
CONVERGED_SECONDS = (
    60.0  # 60 times the lease: even a busy machine converges by then, unless a leader has stopped working
)
MOST_AT_ONCE = 4


@dataclass
class Replica:
    """A manager behind a proxy of its own."""

    name: str
    proxy: FaultProxy
    manager: Manager
    election: Election
    ready_and_leading: int = 0

    def look(self) -> str | None:
        """What is wrong. The lease is asked for first: one that has run out stays so until the next await."""
        held = self.election.holds()
        if any(self.manager.checks().values()) or not self.manager.leading.is_set():
            return None
        self.ready_and_leading += 1
        if (alive := workers(self.manager)) != WORKERS:
            return f"{self.name} leads and is ready, with {alive} of {WORKERS} workers"
        return None if held else f"{self.name} leads and is ready, and does not hold the lease"


def workers(manager: Manager) -> int:
    """The worker tasks that live, as the event loop knows them."""
    alive = 0
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        if frame is not None and frame.f_code is Controller._work.__code__:
            alive += frame.f_locals["self"] in manager._controllers
    return alive


@asynccontextmanager
async def replica(server: ApiServer, namespace: str, name: str) -> AsyncIterator[Replica]:
    async with (
        FaultProxy(server, name=name) as proxy,
        Client(load_config(proxy.server.kubeconfig), user_agent=name) as client,
    ):
        election = Election(client, Key(namespace, "leader"), name, terms=TERMS)
        manager = copying(Manager(client, election=election, drain_seconds=1.0), namespace)
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            yield Replica(name, proxy, manager, election)
            assert not task.done(), task
        finally:
            proxy.remove_faults()
            stop.set()
            await task


async def judge(replicas: list[Replica]) -> None:
    """Looks again and again; ends only when something is wrong."""
    while True:
        for each in replicas:
            assert (wrong := each.look()) is None, wrong
        assert not all(each.election.holds() for each in replicas), "both hold the lease"
        await passed(0.01)


async def test_two_managers_converge_after_every_pause_cut_and_slow_renewal(
    api_server: ApiServer, client: Client, namespace: str, capsys: pytest.CaptureFixture[str], soak: Soak
) -> None:
    rng, wanted, told = soak.random("managers"), soak.rounds(FAULTS), 0
    for name in NAMES:
        await client.create(CONFIG_MAPS, a_parent(namespace, name))

    async def converged(text: str) -> bool:
        copies = (await client.list(children_of(namespace))).items
        found = {copy.metadata.name: copy.data.get("text") for copy in copies}
        assert found == {f"{name}-child": text for name in NAMES}
        return True

    with capture_logs() as logs:
        async with replica(api_server, namespace, "one") as one, replica(api_server, namespace, "two") as two:
            judging = asyncio.create_task(judge([one, two]))
            rounds = 0
            while told < wanted:
                rounds += 1
                chosen = [
                    (rng.choice([[one], [two], [one, two]]), Mischief(TERMS).choose(rng))
                    for _ in range(min(rng.randint(1, MOST_AT_ONCE), wanted - told))
                ]
                told += len(chosen)
                faults = together(*(act(each.proxy) for targets, (_, act) in chosen for each in targets))
                await together(faults, change(client, namespace, str(rounds)))
                story = "; ".join(f"{'+'.join(each.name for each in targets)} {what}" for targets, (what, _) in chosen)
                await eventually(
                    lambda: converged(str(rounds)),  # noqa: B023
                    within=CONVERGED_SECONDS,
                    what=f"seed {soak.seed}, round {rounds}, {story}: all copies are up to date",
                )
                if judging.done():
                    judging.result()
            await eventually(lambda: any(each.manager.leading.is_set() for each in (one, two)))
            judging.cancel()
            await asyncio.gather(judging, return_exceptions=True)
    ended = sum(line["event"] == "no longer leading" for line in logs)
    with capsys.disabled():
        sys.stdout.write(
            f"\nseed {soak.seed}: {told} faults in {rounds} rounds ended {ended} terms; a ready leader was seen "
            f"{one.ready_and_leading + two.ready_and_leading} times\n"
        )
    assert one.ready_and_leading or two.ready_and_leading, "nothing was judged"
    assert ended, "no fault was long enough to end a term"


async def change(client: Client, namespace: str, text: str) -> None:
    """Changes the objects that must be copied, while the faults last."""
    for name in NAMES:
        await client.patch(CONFIG_MAPS, Key(namespace, name), {"data": {"text": text}})
        await passed(LONGEST_PAUSE / len(NAMES))
