"""Seeded stock is Ready only when its operation lists it; what the operation lists otherwise is removed."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.builders import an_operation
from equipment.builders.product import UnitBuilder
from equipment.fault_proxy import creates, lists, updates
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import BATCH, OPERATION_UID, STOCK_ORDINAL
from gpu_runtime.api.v1alpha1.labels import OPERATION, UNFINISHED
from gpu_runtime.controllers import ready_status
from gpu_runtime.controllers.gpuunit import stock_gate
from kube.controllers.test_gpuunit import stock_unit
from kube.controllers.test_stockpool import demo_pool
from kube.controllers.world import Document, World

NAME = "batch-001"


async def record(world: World, phase: str = "Pending", units: list[str] | None = None) -> Document:
    """The Operation of a batch of one."""
    operation = an_operation("seed", "CreateStockUnits").in_namespace(world.namespace)
    operation = operation.annotated({BATCH: f"{world.stock_namespace}/batch"}).status(phase=phase, units=units or [])
    return await world.create(operation.labelled({UNFINISHED: "true"}) if phase == "Pending" else operation)


def seeded(world: World, operation: Document, name: str = NAME) -> UnitBuilder:
    notes = {OPERATION_UID: operation["metadata"]["uid"], STOCK_ORDINAL: "1"}
    return stock_unit(world, name).annotated(notes).labelled({OPERATION: operation["metadata"]["name"]})


async def removed(world: World, kind: str, name: str, namespace: str) -> None:
    async def gone() -> bool:
        return not await world.exists(kind, name, namespace)

    await world.until(gone, f"{kind} {name} is removed")


def record_reads(world: World, since: int = 0) -> int:
    read = world.proxy.calls(lists("operations"), since=since)
    mine = f"metadata.name={an_operation('seed', 'CreateStockUnits').name}"
    return len([each for each in read if each.call.query.get("fieldSelector") == mine])


@mutant(
    "controllers/gpuunit/reconcile.py", "                seen = await self.gate.after(seen)\n", "                pass\n"
)
async def test_stock_runs_and_is_not_ready_until_its_operation_lists_it(world: World) -> None:
    async with world.reconciling():
        operation = await record(world)
        unit = await world.create(seeded(world, operation))
        await world.becomes(
            "GPUUnit", NAME, "AwaitingOperation", "has not listed it yet", namespace=world.stock_namespace
        )
        assert await world.exists("Deployment", NAME, world.stock_namespace)
        listed = {"status": {"units": [unit["metadata"]["uid"]]}}
        await world.change("Operation", operation["metadata"]["name"], listed)
        unit = await world.becomes("GPUUnit", NAME, "UnitReady", namespace=world.stock_namespace)
        assert unit["status"]["listed"] is True


async def test_stock_that_is_listed_in_time_costs_one_status_write_and_no_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, patience in ((ready_status, "FIRST_SECONDS"), (stock_gate, "EXECUTOR_SECONDS")):
        monkeypatch.setattr(module, patience, 600.0)  # however slow the machine is
    async with world.reconciling():
        operation = await record(world)
        unit = await world.create(seeded(world, operation))
        await world.change("Operation", operation["metadata"]["name"], {"status": {"units": [unit["metadata"]["uid"]]}})
        await world.becomes("GPUUnit", NAME, "UnitReady", namespace=world.stock_namespace)
        assert world.proxy.count(updates("gpuunits").named(NAME).in_namespace(world.stock_namespace)) == 1
        assert record_reads(world) == 0


@mutant("api/v1alpha1/stock_batch.py", 'return unit.status.listed or unit.status.phase == "Ready"', "return False")
async def test_a_restart_reads_no_record_of_stock_that_was_ready_once_and_writes_nothing(world: World) -> None:
    async with world.reconciling():
        operation = await record(world, "Succeeded")
        await world.create(seeded(world, operation))
        await world.becomes("GPUUnit", NAME, "UnitReady", namespace=world.stock_namespace)
    await world.remove("Operation", operation["metadata"]["name"])
    mark = world.proxy.mark()
    async with world.reconciling():
        await world.settled()
        assert world.written(since=mark) == []
        assert record_reads(world, since=mark) == 0
    # Stock of an earlier version is Ready and has no `listed`.
    earlier = {"status": {"listed": None}}
    await world.change("GPUUnit", NAME, earlier, subresource="status", namespace=world.stock_namespace)
    mark = world.proxy.mark()
    async with world.reconciling():
        await world.settled()
        assert world.written(since=mark) == []
    assert await world.exists("GPUUnit", NAME, world.stock_namespace)


FATES: dict[str, dict[str, Any]] = {
    "another unit has its number": {"phase": "Pending", "units": ["another"]},
    "the batch is complete without it": {"phase": "Succeeded", "units": ["another"]},
    "its record is gone": {"phase": "Succeeded", "gone": True},
}


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
async def test_stock_that_its_operation_can_never_list_is_removed_and_was_never_ready(
    world: World, fate: Document
) -> None:
    async with world.reconciling():
        operation = await record(world, fate["phase"], fate.get("units"))
        if fate.get("gone"):
            await world.remove("Operation", operation["metadata"]["name"])
        await world.create(seeded(world, operation))
        await removed(world, "GPUUnit", NAME, world.stock_namespace)
        said = world.proxy.writes(updates("gpuunits").named(NAME).in_namespace(world.stock_namespace))
        assert "Ready" not in [each.call.body["status"]["phase"] for each in said]


async def test_a_copy_of_seeded_stock_under_another_name_is_reported_and_not_removed(world: World) -> None:
    async with world.reconciling():
        operation = await record(world, "Succeeded", ["another"])
        await world.create(seeded(world, operation, "copy"))
        await world.becomes("GPUUnit", "copy", "InvalidSpec", "a copy?", namespace=world.stock_namespace)


@mutant(
    "controllers/stockpool/reconcile.py", "            if await self._superseded(pool):\n", "            if False:\n"
)
async def test_a_second_pool_of_one_operation_is_removed_before_anything_is_built(world: World) -> None:
    async with world.reconciling():
        listed = {"kind": "StockPool", "namespace": world.namespace, "name": "pool-g1-demo", "uid": "another"}
        operation = an_operation("pool", "CreateStockPool").in_namespace(world.namespace)
        made = await world.create(operation.status(phase="Succeeded", objects=[listed]))
        pool = demo_pool(world).annotated({OPERATION_UID: made["metadata"]["uid"]})
        await world.create(pool.labelled({OPERATION: made["metadata"]["name"]}))
        await removed(world, "StockPool", "pool-g1-demo", world.namespace)
        assert world.proxy.count(creates().in_namespace(world.namespace)) == 0
