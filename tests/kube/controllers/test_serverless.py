"""Units that are serverless workers, on a real API server. Their pods run on nodes that are played."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from equipment.builders import a_unit
from equipment.builders.product import UnitBuilder
from gpu_runtime.config.controller_manager import ServerlessSettings
from kube.controllers.world import World

BLOCK: dict[str, Any] = {"enabled": True, "requestID": "echo", "concurrency": 2}


def a_worker(world: World, **block: Any) -> UnitBuilder:
    return a_unit("echo-0", world.namespace).gpu(1).memory("1Gi").image("framework:1").spec(serverless=BLOCK | block)


async def test_a_unit_becomes_a_worker_changes_and_stops_being_one(world: World) -> None:
    settings = replace(world.settings, serverless=ServerlessSettings(brokerURL="nats://nats.example.com:4222"))
    async with world.reconciling(settings):
        await world.create(a_worker(world))
        unit = await world.becomes("GPUUnit", "echo-0", "UnitReady")
        assert unit["status"]["serverless"]["phase"] == "Ready"
        takes = {each["type"]: each for each in unit["status"]["conditions"]}["ServerlessReady"]
        assert (takes["status"], takes["reason"]) == ("True", "UnitServerlessReady")
        pod = await world.pod_of("echo-0")
        assert [each["name"] for each in pod["spec"]["containers"]] == ["runtime-worker", "serverless-worker"]
        policy = await world.read("NetworkPolicy", "echo-0")
        assert policy["spec"]["egress"][-1]["ports"] == [{"port": 4222, "protocol": "TCP"}]
        await world.settled()
        before = len(world.written())
        await world.resync()
        assert world.written()[before:] == [], "what the server fills in is no difference"

        await world.change("GPUUnit", "echo-0", {"spec": {"serverless": {"requestID": "other"}}})
        await world.becomes("GPUUnit", "echo-0", "UnitReady")

        async def renamed() -> bool:
            environment = (await world.pod_of("echo-0"))["spec"]["containers"][1]["env"]
            return {"name": "GPU_RUNTIME_WORKER_FUNCTION", "value": "other"} in environment

        await world.until(renamed, "the pod works for the other function")
        await world.change("GPUUnit", "echo-0", {"spec": {"serverless": None}})

        async def alone() -> bool:
            found = await world.read("GPUUnit", "echo-0")
            containers = (await world.pod_of("echo-0"))["spec"]["containers"]
            is_current = found["status"]["observedGeneration"] == found["metadata"]["generation"]
            return is_current and len(containers) == 1 and "serverless" not in found["status"]

        await world.until(alone, "the unit is no worker any more")


async def test_a_worker_that_cannot_be_is_failed_and_gets_no_pod(world: World) -> None:
    async with world.reconciling():
        await world.create(a_worker(world))
        unit = await world.becomes("GPUUnit", "echo-0", "ServerlessConfigInvalid", "no setting serverless.brokerURL")
        assert unit["status"]["serverless"]["phase"] == "Failed"
        assert not await world.exists("Deployment", "echo-0")
