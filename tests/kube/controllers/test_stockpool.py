"""Parts 5 and 6: a StockPool becomes a Deployment, a Service and an honest status."""

from __future__ import annotations

from typing import Any

from equipment.builders import a_stock_pool
from equipment.builders.product import StockPoolBuilder
from gpu_runtime.api.meta.object import Key
from kube.controllers.world import World

SERVER = {
    "command": ["python"],
    "args": ["-m", "http.server", "8080"],
    "envs": [{"name": "MODEL_ID", "value": "demo-model"}],
    "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
}


def demo_pool(world: World, **template: Any) -> StockPoolBuilder:
    pool = a_stock_pool("pool-g1-demo", world.namespace)
    return pool.spec(image="python:3.12-slim", memory="16Gi", gpu=1, template={**SERVER, **template})


async def test_a_pool_becomes_a_deployment_a_service_and_ready(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_pool(world))
        pool = await world.becomes("StockPool", "pool-g1-demo", "DeploymentReady", "1 of 1 replicas")
    status = pool["status"]
    assert (status["phase"], status["available"], status["allocated"]) == ("Ready", 1, 0)
    assert status["serviceName"] == "pool-pool-g1-demo"
    assert status["observedGeneration"] == pool["metadata"]["generation"]
    assert status["lastSyncTime"]
    deployment = await world.read("Deployment", "pool-pool-g1-demo")
    pod = deployment["spec"]["template"]
    container = pod["spec"]["containers"][0]
    assert (container["name"], container["image"]) == ("runtime-worker", "python:3.12-slim")
    assert container["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "1"}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert [each["name"] for each in container["env"]] == [
        "SPEC_NAME", "POOL_NAME", "GPU_COUNT", "MEMORY_LIMIT", "MODEL_ID",
    ]  # fmt: skip
    assert pod["metadata"]["labels"]["runtime.lokiwager.io/pool"] == "pool-g1-demo"
    service = await world.read("Service", "pool-pool-g1-demo")
    assert service["spec"]["type"] == "ClusterIP"
    assert [port["port"] for port in service["spec"]["ports"]] == [8080]


async def test_kubectl_scale_and_an_edit_converge_without_restarting_a_pod(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_pool(world))
        await world.becomes("StockPool", "pool-g1-demo", "DeploymentReady", "1 of 1")
        first = await world.find("Pod")
        await world.kubectl("scale", "stockpool", "pool-g1-demo", "--replicas=3")
        pool = await world.becomes("StockPool", "pool-g1-demo", "DeploymentReady", "3 of 3")
        assert pool["status"]["replicas"] == 3
        assert first[0]["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await world.find("Pod")}
        await world.change("StockPool", "pool-g1-demo", {"spec": {"replicas": 2}})
        await world.becomes("StockPool", "pool-g1-demo", "DeploymentReady", "2 of 2")
        await world.kubectl("scale", "stockpool", "pool-g1-demo", "--replicas=0")
        pool = await world.becomes("StockPool", "pool-g1-demo", "ScaledToZero")
    assert (pool["status"]["phase"], pool["status"]["available"]) == ("Empty", 0)


async def test_a_pool_that_loses_its_ports_loses_its_service(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_pool(world))
        await world.becomes("StockPool", "pool-g1-demo", "DeploymentReady")
        await world.change("StockPool", "pool-g1-demo", {"spec": {"template": {"ports": None}}})

        async def gone() -> bool:
            return not await world.exists("Service", "pool-pool-g1-demo")

        await world.until(gone, "the Service is deleted")
        pool = await world.becomes("StockPool", "pool-g1-demo", "DeploymentReady")
    assert "serviceName" not in pool["status"]


async def test_a_pool_without_a_template_runs_a_placeholder_that_ends_when_told(world: World) -> None:
    async with world.reconciling():
        await world.create(a_stock_pool("plain", world.namespace).spec(image="nginx:1.27"))
        await world.becomes("StockPool", "plain", "DeploymentReady")
    deployment = await world.read("Deployment", "pool-plain")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "nginx:1.27"
    assert "trap" in container["command"][-1]
    assert not await world.exists("Service", "pool-plain")


async def test_memory_that_is_no_quantity_is_failed_and_is_not_tried_again_and_again(world: World) -> None:
    async with world.reconciling():
        await world.create(a_stock_pool("pool-invalid", world.namespace).spec(memory="not-a-quantity"))
        pool = await world.becomes("StockPool", "pool-invalid", "InvalidSpec", "spec.memory: 'not-a-quantity'")
        assert pool["status"]["phase"] == "Failed"
        assert not await world.exists("Deployment", "pool-pool-invalid")
        await world.settled()
        assert Key(world.namespace, "pool-invalid") not in world.controllers["stockpool"].queue.pending()
        await world.change("StockPool", "pool-invalid", {"spec": {"memory": "1Gi"}})
        await world.becomes("StockPool", "pool-invalid", "DeploymentReady")
    assert await world.events("pool-invalid", "InvalidSpec")
