"""A unit gets and loses a storage, and a held storage is deleted, while a process is stopped at every single write."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.fault_proxy.kill import When
from equipment.judge import Witness, data_kept, list_objects, one_writer, orphans, timeline
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.controllers.product_kinds import GPU_STORAGES, GPU_UNITS
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from kube.http.api import Answer, Api, Places, unit_request
from local.crash_points.flows import LATER, STOCK, Flow, clean_run, crash, in_this_process, reconciling
from local.crash_points.test_prepare import controllers

BUILT_IN = (
    "/api/v1/namespaces/{}/persistentvolumeclaims",
    "/api/v1/namespaces/{}/pods",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/apps/v1/namespaces/{}/replicasets",
)
MOST_WRITES = 40
SIDES: tuple[When, ...] = ("before", "after")


def mounts(n: int) -> list[dict[str, str]]:
    return [{"name": f"data-{n}", "mountPath": "/data"}]


async def _has_storage(world: Places, n: int) -> None:
    metadata = {"namespace": world.instance, "name": f"data-{n}"}
    await world.client.create(GPU_STORAGES, {"metadata": metadata, "spec": {"size": "1Gi"}})


async def _has_mount(world: Places, n: int) -> None:
    await _has_storage(world, n)
    spec = {"specName": STOCK, "image": "image:start", "memory": "1Gi", "storageMounts": mounts(n)}
    metadata = {"namespace": world.instance, "name": f"fixed-{n}"}
    await world.client.create(GPU_UNITS, {"metadata": metadata, "spec": spec})


async def _hand_over(api: Api, world: Places, n: int) -> Answer:
    return await api.post("/gpu-units", unit_request(f"unit-{n}", f"unit-{n}", storageMounts=mounts(n)))


async def _attach(api: Api, world: Places, n: int) -> Answer:
    return await api.put(f"/gpu-units/fixed-{n}", {"storageMounts": mounts(n)})


async def _detach(api: Api, world: Places, n: int) -> Answer:
    return await api.put(f"/gpu-units/fixed-{n}", {"storageMounts": []})


FLOWS = {
    "hand over with a storage": Flow(_hand_over, frozenset({200, 201}), _has_storage),
    "attach": Flow(_attach, frozenset({200}), _has_storage),
    "detach": Flow(_detach, frozenset({200}), _has_mount),
}


CLOCKS: dict[str, Clock] = {
    # With a clock that is ahead, the controllers do not wait for an executor that died. They would also free what a PUT
    # has just reserved, so PUT gets the real clock.
    "hand over with a storage": LATER,
    "attach": SYSTEM_CLOCK,
    "detach": SYSTEM_CLOCK,
}


@pytest.mark.parametrize("name", FLOWS)
async def test_an_api_that_dies_at_any_write_leaves_a_storage_with_its_unit_or_free(
    name: str, world: Places, fault_proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    async with reconciling(world, CLOCKS[name]), Witness(world.server, _paths(world)) as witness:
        clean = await clean_run(FLOWS[name], world, fault_proxy)
        start = partial(in_this_process, world, fault_proxy)
        for turn, point in enumerate(clean.points, 1):
            await crash(clean, start, world, fault_proxy, turn, point)
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: {clean.writes} writes, crashed at {len(clean.points)} points\n")
        assert clean.points
        await judge(world, witness)


@dataclass(frozen=True)
class Change:
    """What happens before the controllers that will die start, the change that they act on, and how it ends."""

    before: Callable[[Places, int], Awaitable[None]]
    change: Callable[[Places, Api, int], Awaitable[None]]
    done: Callable[[Places, int], Awaitable[bool]]


async def _unit_mounts(world: Places, n: int) -> None:
    await _has_mount(world, n)

    async def mounted() -> bool:
        return await _is_mounted(world, n)

    await eventually(mounted, what=f"unit fixed-{n} mounts its storage")


async def _storage_is_ready(world: Places, n: int) -> None:
    await _has_storage(world, n)

    async def ready() -> bool:
        return bool((await _storage(world, n)).status.phase == "Ready")

    await eventually(ready, what=f"storage data-{n} is Ready")


async def _creates(world: Places, api: Api, n: int) -> None:
    spec = {"specName": STOCK, "image": "image:start", "memory": "1Gi", "storageMounts": mounts(n)}
    metadata = {"namespace": world.instance, "name": f"fixed-{n}"}
    await world.client.create(GPU_UNITS, {"metadata": metadata, "spec": spec})


async def _detaches(world: Places, api: Api, n: int) -> None:
    assert (await _detach(api, world, n)).status == 200


async def _deletes(world: Places, api: Api, n: int) -> None:
    refused = await api.delete(f"/gpu-storages/data-{n}")
    assert (refused.status, refused.code) == (409, "storage_in_use")
    await world.client.delete(GPU_STORAGES, Key(world.instance, f"data-{n}"))
    assert (await api.delete(f"/gpu-units/fixed-{n}")).status == 204


async def _is_mounted(world: Places, n: int) -> bool:
    unit = await world.client.get(GPU_UNITS, Key(world.instance, f"fixed-{n}"))
    record = attachment_of((await _storage(world, n)).metadata)
    return unit.status.phase == "Ready" and record is not None and record.unit == f"fixed-{n}"


async def _is_free(world: Places, n: int) -> bool:
    unit = await world.client.get(GPU_UNITS, Key(world.instance, f"fixed-{n}"))
    settled = unit.status.phase == "Ready" and unit.status.observedGeneration == unit.metadata.generation
    storage = await _storage(world, n)
    return settled and attachment_of(storage.metadata) is None and storage.status.phase == "Ready"


async def _is_gone(world: Places, n: int) -> bool:
    listed = await list_objects(world.server, *_paths(world))
    return not [each for each in listed if each["metadata"]["name"] in (f"data-{n}", f"fixed-{n}")]


CHANGES = {
    "attach": Change(_storage_is_ready, _creates, _is_mounted),
    "detach": Change(_unit_mounts, _detaches, _is_free),
    "delete a held storage": Change(_unit_mounts, _deletes, _is_gone),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_controllers_that_die_at_any_write_leave_their_work_to_the_next(
    name: str, world: Places, fault_proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed = 0
    async with world.api() as api, Witness(world.server, _paths(world)) as witness:
        for turn, (n, when) in enumerate((n, when) for n in range(1, MOST_WRITES) for when in SIDES):
            if not await dies(CHANGES[name], world, api, fault_proxy, turn, n, when):
                break  # this run needed fewer writes
            crashed += 1
        await judge(world, witness)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: controllers died at {crashed} points\n")
    assert crashed >= 6


async def dies(flow: Change, world: Places, api: Api, proxy: FaultProxy, turn: int, n: int, when: When) -> bool:
    """Whether the controllers died at the point; in any case, fresh ones end what they began."""
    async with controllers(world, world.server):
        await flow.before(world, turn)
    async with controllers(world, proxy.server) as process:
        kill = proxy.kill_at(n, process.cancel, when)
        await flow.change(world, api, turn)

        async def dead_or_done() -> bool:
            return bool(kill.hits) or await flow.done(world, turn)

        await eventually(dead_or_done, what=f"the controllers died {when} write {n}, or needed no such write")
        died = bool(kill.hits)
        if died:
            await kill.happened()
    kill.remove()
    async with controllers(world, world.server):
        await eventually(lambda: flow.done(world, turn), what=f"it ends after a crash {when} write {n}")
    return died


async def _storage(world: Places, n: int) -> Any:
    return await world.client.get(GPU_STORAGES, Key(world.instance, f"data-{n}"))


def _paths(world: Places) -> list[str]:
    return [*world.paths, *(path.format(world.instance) for path in BUILT_IN)]


async def judge(world: Places, witness: Witness) -> None:
    after = await list_objects(world.server, *_paths(world))
    if after:
        await witness.caught_up(str(max(int(each["metadata"]["resourceVersion"]) for each in after)))
    seen = timeline(before=witness.before, events=witness.events, after=after)
    assert data_kept(seen) == []
    assert one_writer(seen) == []
    assert orphans([each for each in after if each["kind"] != "Pod"], stock_namespace=world.stock) == []
