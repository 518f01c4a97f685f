"""A changed function rolls its workers without a gap."""

from __future__ import annotations

from typing import Any

from equipment.builders import Builder
from equipment.mutation import mutant
from equipment.nats import NatsServer
from gpu_runtime.api.v1alpha1.annotations import FUNCTION_FINALIZER
from local.activator.world import World, function, world


def image(name: str) -> dict[str, Any]:
    return {"specName": "cpu.small", "image": name, "memory": "256Mi"}


def change(activator: World, changed: Builder, generation: int = 2) -> None:
    activator.api.put(changed.kept_by(FUNCTION_FINALIZER).at_generation(generation))


def images(activator: World) -> list[str]:
    return [unit["spec"].get("image", "") for unit in activator.api.of_kind("GPUUnit")]


async def two_workers(activator: World) -> None:
    await activator.settle()
    activator.ready(0, 1)
    await activator.settle()


async def test_workers_are_drained_and_changed_in_place_one_at_a_time(server: NatsServer) -> None:
    async with world(server, function(minWorkers=2, maxWorkers=2)) as activator:
        await two_workers(activator)
        change(activator, function(minWorkers=2, maxWorkers=2, unit=image("echo:2")))
        await activator.settle()
        assert activator.condition[:2] == ("Progressing", "FunctionUpdating")
        activator.beat(1, "draining", running=1)
        await activator.settle()
        assert images(activator) == ["echo:1", "echo:1"]
        activator.beat(1, "draining")
        await activator.settle()
        assert images(activator) == ["echo:1", "echo:2"]
        assert activator.slots == [0, 1]
        activator.beat(1, "draining")  # the old pod still ends
        await activator.settle()
        assert images(activator) == ["echo:1", "echo:2"]
        activator.beat(0, "ready")
        await activator.settle()
        activator.ready(1)
        await activator.settle()
        assert activator.condition[:2] == ("Ready", "FunctionReady")
        activator.beat(0, "draining")
        await activator.settle()
        assert images(activator) == ["echo:2", "echo:2"]


@mutant("activator/observation.py", '(is_current and status.phase == "Ready")', "True")
async def test_what_the_old_pod_of_a_changed_worker_says_does_not_end_the_worker(server: NatsServer) -> None:
    async with world(server, function(minWorkers=1)) as activator:
        await activator.settle()
        activator.ready(0)
        change(activator, function(minWorkers=1, unit=image("echo:2")))
        await activator.settle()
        activator.beat(0, "draining")
        await activator.settle()
        unit = activator.unit(0)
        assert unit is not None
        activator.report(0, "Progressing")
        activator.beat(0, "draining")
        await activator.settle()
        after = activator.unit(0)
        assert after is not None
        assert after["metadata"]["uid"] == unit["metadata"]["uid"]


async def test_a_changed_size_replaces_the_worker(server: NatsServer) -> None:
    async with world(server, function(minWorkers=1)) as activator:
        await activator.settle()
        activator.ready(0)
        before = activator.unit(0)
        larger = {**image("echo:1"), "memory": "1Gi"}
        change(activator, function(minWorkers=1, unit=larger))
        await activator.settle()
        activator.beat(0, "draining")
        await activator.settle()
        units = activator.api.of_kind("GPUUnit")
        assert [unit["spec"]["memory"] for unit in units] == ["1Gi"]
        assert before is not None
        assert units[0]["metadata"]["uid"] != before["metadata"]["uid"]


async def test_the_same_size_in_other_words_changes_nothing(server: NatsServer) -> None:
    async with world(server, function(minWorkers=1, unit={**image("echo:1"), "memory": "1Gi"})) as activator:
        await activator.settle()
        activator.ready(0)
        await activator.settle()
        change(activator, function(minWorkers=1, unit={**image("echo:1"), "memory": "1024Mi"}))
        await activator.settle()
        assert activator.condition[:2] == ("Ready", "FunctionReady")


async def test_a_version_that_fails_stops_the_roll(server: NatsServer) -> None:
    async with world(server, function(minWorkers=2)) as activator:
        await two_workers(activator)
        change(activator, function(minWorkers=2, unit=image("broken:1")))
        await activator.settle()
        activator.beat(1, "draining")
        await activator.settle()
        activator.report(1, "Failed", "its container crashes")
        activator.beat(0)
        await activator.settle()
        assert sorted(images(activator)) == ["broken:1", "echo:1"]
        change(activator, function(minWorkers=2, unit=image("echo:3")), 3)
        await activator.settle()
        assert sorted(images(activator)) == ["echo:1", "echo:3"]


async def test_a_change_of_limits_alone_restarts_no_worker(server: NatsServer) -> None:
    async with world(server, function(minWorkers=1)) as activator:
        await activator.settle()
        activator.ready(0)
        await activator.settle()
        before = activator.unit(0)
        change(activator, function(minWorkers=1, maxWorkers=9, queueLimit=5, retry={"maxAttempts": 9}))
        await activator.settle()
        assert activator.unit(0) == before
