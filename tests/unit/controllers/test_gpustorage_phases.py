"""When the phases of a storage's reconcile run, what they are given, and what the storage makes of their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from equipment.builders.base import Builder
from equipment.mutation import mutant
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.gpustorage import AccessorStatus, GPUStorage, PreparePhase, PrepareStatus
from gpu_runtime.api.v1alpha1.reasons import STORAGE_PREPARE_FAILED, STORAGE_PREPARE_RUNNING
from gpu_runtime.controllers.child_kinds.volumes import PersistentVolumeClaim
from gpu_runtime.controllers.gpustorage.phases import Accessible, Prepared
from gpu_runtime.controllers.gpustorage.reconcile import GPUStorageReconciler
from gpu_runtime.kube import Result
from unit.controllers.table import Row, World
from unit.controllers.test_gpustorage_table import BOUND, CLAIM, CLASS, DELETED, HELD, KEY, READY, STORAGE, UNIT, WAITS

FILLED = STORAGE.spec(prepare={"fromImage": "python:3.12", "command": ["fill"]})
OPERATION = Builder({"metadata": {"name": "op", "uid": "op-uid"}})


@dataclass
class Phase:
    """Stands in for prepare and accessor: remembers which claims it was given, and gives a fixed outcome."""

    outcome: Any
    is_gone: bool = True
    given: list[str | None] = field(default_factory=list)

    async def run(self, storage: GPUStorage, claim: PersistentVolumeClaim | None) -> Any:
        self.given.append(claim.metadata.name if claim is not None else None)
        return self.outcome

    async def end(self, storage: GPUStorage) -> bool:
        return self.is_gone


def prepare(phase: PreparePhase, reason: str = "", again: float | None = None) -> Phase:
    condition = Condition.false("Prepared", reason or "Reason", "the words of the prepare", 1)
    return Phase(Prepared(PrepareStatus(phase=phase), condition, again))


def accessor(again: float | None = None) -> Phase:
    condition = Condition.false("AccessorReady", "StorageAccessorPending", "", 1)
    return Phase(Accessible(AccessorStatus(phase="Pending"), condition, again))


async def reconcile(have: Sequence[Builder], times: int = 1, **phases: Any) -> tuple[World, Result]:
    """Reconciles with these phases in place of the usual ones."""
    world = World(Row(have))
    usual = world.controllers["gpustorage"]._reconcile.__self__  # type: ignore[attr-defined]
    assert isinstance(usual, GPUStorageReconciler)
    ends = {name: phase for name, phase in phases.items() if name in ("prepare", "accessor")}
    reconciler = replace(usual, deletion=replace(usual.deletion, **ends), **phases)
    result = Result()
    for _ in range(times):
        world.api.fill(world.manager)
        result = await reconciler.reconcile(KEY)
    return world, result


def status_of(world: World) -> dict[str, Any]:
    storage = world.api.find("GPUStorage", "data")
    assert storage is not None
    status: dict[str, Any] = storage["status"]
    return status


def reason_of(world: World) -> str:
    return next(str(each["reason"]) for each in status_of(world)["conditions"] if each["type"] == "Ready")


@mutant("controllers/gpustorage/reconcile.py", "recorded = bool(storage.status.claimName)", "recorded = True")
async def test_nothing_is_put_on_a_volume_before_the_status_names_its_claim() -> None:
    filling = prepare("Pending", STORAGE_PREPARE_RUNNING)
    await reconcile([FILLED, BOUND, CLASS], times=2, prepare=filling)
    assert filling.given == [None, "data"]


async def test_a_volume_that_waits_for_its_first_consumer_is_filled_by_that_consumer() -> None:
    filling = prepare("Pending", STORAGE_PREPARE_RUNNING)
    world, _ = await reconcile([FILLED.status(claimName="data"), CLAIM, WAITS], prepare=filling)
    assert filling.given == ["data"]
    assert not status_of(world).get("mountable")


@pytest.mark.parametrize(
    ("outcome", "reason", "phase"),
    [("Running", STORAGE_PREPARE_RUNNING, "Pending"), ("Failed", STORAGE_PREPARE_FAILED, "Failed")],
)
async def test_a_volume_that_is_not_filled_cannot_be_mounted_and_is_not_served(
    outcome: PreparePhase, reason: str, phase: str
) -> None:
    serving = accessor()
    world, _ = await reconcile([READY, BOUND, CLASS], prepare=prepare(outcome, reason), accessor=serving)
    status = status_of(world)
    assert (status["phase"], status.get("mountable"), reason_of(world)) == (phase, None, reason)
    assert serving.given == [None]


async def test_a_volume_that_is_filled_can_be_mounted_and_served() -> None:
    serving = accessor()
    world, _ = await reconcile([READY, BOUND, CLASS], prepare=prepare("Succeeded"), accessor=serving)
    assert (status_of(world)["mountable"], reason_of(world), serving.given) == (True, "StorageReady", ["data"])


async def test_the_earliest_wish_to_look_again_decides() -> None:
    _, result = await reconcile([READY, BOUND, CLASS], prepare=prepare("Succeeded", again=7.0), accessor=accessor(5.0))
    assert result == Result(5.0)


async def test_a_bad_size_does_not_keep_a_phase_from_looking_again() -> None:
    _, result = await reconcile([READY.size("lots"), BOUND, CLASS], prepare=prepare("Running", again=5.0))
    assert result == Result(5.0)


async def test_a_claim_stays_until_the_pods_that_fill_and_serve_it_are_gone() -> None:
    filling, serving = prepare("Running"), accessor()
    filling.is_gone = serving.is_gone = False
    world, result = await reconcile([DELETED, BOUND], prepare=filling, accessor=serving)
    assert world.api.writes == ["status GPUStorage data"]
    assert (reason_of(world), result) == ("StorageDeleting", Result(15.0))


async def test_a_deleted_storage_whose_holder_is_gone_takes_its_claim_along() -> None:
    world, _ = await reconcile([DELETED.attached_to(UNIT, OPERATION), BOUND])
    assert "delete PersistentVolumeClaim data" in world.api.writes


async def test_a_storage_whose_holder_is_gone_shows_no_holder() -> None:
    world, _ = await reconcile([HELD, BOUND, CLASS])
    assert "attachedTo" not in status_of(world)
