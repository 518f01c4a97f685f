"""Each cause that keeps pods from running shows in the Ready condition in its own words, and goes when it goes."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.builders import a_stock_pool
from equipment.clock import Later
from equipment.mutation import mutant
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.world import Document, World

NOT_READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]


def container(*, ready: bool = False, **states: Any) -> Document:
    status = {
        "name": "runtime-worker",
        "image": "x",
        "imageID": "",
        "ready": ready,
        "restartCount": 3,
        **states,
    }
    return {"conditions": READY if ready else NOT_READY, "phase": "Running", "containerStatuses": [status]}


STATES: dict[str, tuple[Document, str]] = {
    "an image that cannot be pulled": (
        container(state={"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nope:1"'}}),
        'container runtime-worker: ImagePullBackOff: Back-off pulling image "nope:1"',
    ),
    "a crash loop": (
        container(
            state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            lastState={"terminated": {"exitCode": 3, "reason": "Error", "message": "no such model\n"}},
        ),
        "container runtime-worker: CrashLoopBackOff: exited with code 3: no such model",
    ),
    "out of memory": (
        container(state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
        "container runtime-worker: exited with code 137 (OOMKilled)",
    ),
    "a secret that is not there": (
        container(state={"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}}),
        'container runtime-worker: CreateContainerConfigError: secret "x" not found',
    ),
}


@pytest.mark.parametrize(("status", "words"), STATES.values(), ids=STATES)
async def test_a_container_that_does_not_start_says_why_until_it_does(
    world: World, status: Document, words: str
) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        pod = (await world.pod_of("demo"))["metadata"]["name"]
        await world.change("Pod", pod, {"status": status}, subresource="status")
        unit = await world.becomes("GPUUnit", "demo", "PodStartupFailed", f"Pod {pod} {words}")
        assert unit["status"]["phase"] == "Failed"
        healed = container(ready=True, state={"running": {"startedAt": "2030-01-01T00:00:00Z"}})
        await world.change("Pod", pod, {"status": healed}, subresource="status")
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
        assert unit["status"]["phase"] == "Ready"
        await world.settled()
    assert await world.events("demo", "PodStartupFailed")


@mutant(
    "controllers/registration.py",
    "mapped(caches.pods, runs_for),\n        mapped(caches.units.store",
    "mapped(caches.units.store",
)
async def test_a_change_of_the_pod_alone_is_told(world: World) -> None:
    async with world.reconciling(clock=Later()):
        await world.create(demo_unit(world).gpu(999))
        await world.becomes("GPUUnit", "demo", "PodStartupFailed", "Insufficient nvidia.com/gpu")
        await world.settled()
        pod = (await world.pod_of("demo"))["metadata"]["name"]
        before = await world.read("Deployment", "demo")
        status, words = STATES["an image that cannot be pulled"]
        await world.change("Pod", pod, {"status": {**status, "phase": "Pending"}}, subresource="status")
        await world.becomes("GPUUnit", "demo", "PodStartupFailed", f"Pod {pod} {words}")
        after = await world.read("Deployment", "demo")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_pod_that_fits_no_node_says_so_in_the_schedulers_words_until_it_fits(world: World) -> None:
    async with world.reconciling():
        await world.create(a_stock_pool("large", world.namespace).spec(gpu=999))
        pool = await world.becomes("StockPool", "large", "PodStartupFailed", "Insufficient nvidia.com/gpu")
        assert (pool["status"]["phase"], pool["status"]["allocated"]) == ("Failed", 1)
        await world.change("StockPool", "large", {"spec": {"gpu": 1}})
        await world.becomes("StockPool", "large", "DeploymentReady")


async def test_a_quota_that_refuses_pods_says_so_until_there_is_room(world: World) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight", "namespace": world.namespace},
        "spec": {"hard": {"pods": "0"}},
    }
    await world.create(quota)

    async def enforced() -> bool:
        return bool((await world.read("ResourceQuota", "tight")).get("status", {}).get("hard"))

    await world.until(enforced, "the quota is in force")
    async with world.reconciling():
        await world.create(demo_unit(world))
        unit = await world.becomes("GPUUnit", "demo", "PodStartupFailed", "exceeded quota: tight")
        assert unit["status"]["phase"] == "Failed"
        await world.remove("ResourceQuota", "tight")
        await world.becomes("GPUUnit", "demo", "UnitReady")
    deployments = await world.find("Deployment")
    assert len(deployments) == 1


async def test_the_failure_of_an_old_template_is_not_told_of_a_new_one(world: World) -> None:
    async with world.reconciling():
        await world.create(a_stock_pool("p", world.namespace).spec(gpu=999))
        await world.becomes("StockPool", "p", "PodStartupFailed")
        await world.change("StockPool", "p", {"spec": {"gpu": 2}})
        pool = await world.becomes("StockPool", "p", "DeploymentReady")
    assert pool["status"]["observedGeneration"] == 2
