"""Part 7: one kind, two roles by placement, one controller."""

from __future__ import annotations

from equipment.builders import a_unit
from equipment.builders.product import UnitBuilder
from equipment.mutation import mutant
from kube.controllers.world import World, ready_condition


def demo_unit(world: World, name: str = "demo") -> UnitBuilder:
    unit = a_unit(name, world.namespace).gpu(1).memory("16Gi").image("python:3.12").port(8080)
    return unit.spec(access={"primaryPort": "http", "scheme": "http"})


def stock_unit(world: World, name: str = "stock-1") -> UnitBuilder:
    return a_unit(name, world.stock_namespace).gpu(1).memory("16Gi")


async def test_a_unit_applied_by_hand_becomes_a_deployment_a_service_a_policy_and_ready(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
    status = unit["status"]
    assert (status["phase"], status["readyReplicas"], status["serviceName"]) == ("Ready", 1, "demo")
    assert status["accessURL"] == f"http://demo.{world.namespace}.svc.cluster.local:8080"
    pod = await world.pod_of("demo")
    assert status["nodeName"] == pod["spec"]["nodeName"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["enableServiceLinks"] is False
    assert pod["spec"]["terminationGracePeriodSeconds"] == 10
    assert pod["spec"]["priorityClassName"] == "gpu-runtime-active"
    container = pod["spec"]["containers"][0]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["readinessProbe"]["tcpSocket"] == {"port": 8080}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/dev/shm"}
    deployment = await world.read("Deployment", "demo")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    policy = await world.read("NetworkPolicy", "demo")
    assert policy["spec"]["policyTypes"] == ["Egress"]


async def test_a_stock_unit_gets_a_deployment_and_nothing_to_reach_it_by(world: World) -> None:
    async with world.reconciling():
        await world.create(stock_unit(world).image("python:3.12").port(8080))
        unit = await world.becomes("GPUUnit", "stock-1", "UnitReady", namespace=world.stock_namespace)
    assert "serviceName" not in unit["status"]
    assert "accessURL" not in unit["status"]
    assert unit["status"]["nodeName"]
    pod = await world.pod_of("stock-1", world.stock_namespace)
    assert pod["spec"]["containers"][0]["image"] == "busybox:1.36"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    assert pod["spec"]["priorityClassName"] == "gpu-runtime-stock"
    assert not await world.exists("Service", "stock-1", world.stock_namespace)
    assert not await world.exists("NetworkPolicy", "stock-1", world.stock_namespace)


@mutant("controllers/ready_status.py", 'and obj.status.phase == "Failed":', ":")
async def test_a_first_readiness_is_told_by_the_condition_and_costs_no_event(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
    assert ready_condition(unit)["lastTransitionTime"]
    assert not await world.events("demo", "UnitReady")


async def test_a_changed_image_is_not_ready_before_its_own_pod_is(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        before = (await world.pod_of("demo"))["metadata"]
        # The pod of the old image takes its time to end, and still runs: it must not stand in for the new one.
        await world.change("Pod", before["name"], {"metadata": {"finalizers": ["test.example.com/hold"]}})
        await world.change("GPUUnit", "demo", {"spec": {"image": "python:3.13"}})
        unit = await world.becomes("GPUUnit", "demo", "UnitProgressing", "the pod before it is ending")
        assert unit["status"]["phase"] == "Progressing"
        await world.change("Pod", before["name"], {"metadata": {"finalizers": None}})
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
        after = await world.pod_of("demo")
    assert before["uid"] != after["metadata"]["uid"]
    assert after["spec"]["containers"][0]["image"] == "python:3.13"
    assert unit["status"]["observedGeneration"] == unit["metadata"]["generation"] == 2


async def test_a_unit_that_loses_its_ports_loses_its_address(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world).spec(access={}))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.change("GPUUnit", "demo", {"spec": {"template": {"ports": None}}})
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
    assert "accessURL" not in unit["status"]
    assert "serviceName" not in unit["status"]
    assert not await world.exists("Service", "demo")


async def test_a_deleted_unit_takes_its_children_with_it(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.remove("GPUUnit", "demo")

        async def gone() -> bool:
            kinds = ("Deployment", "Service", "NetworkPolicy", "Pod")
            return not [each for kind in kinds for each in await world.find(kind)]

        await world.until(gone, "the children are gone")


async def test_a_primary_port_that_the_template_has_not_is_reported(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world).spec(access={"primaryPort": "grpc"}))
        unit = await world.becomes("GPUUnit", "demo", "AccessConfigInvalid", "names no port")
        assert unit["status"]["phase"] == "Failed"
        assert not await world.find("Deployment")
        await world.change("GPUUnit", "demo", {"spec": {"access": {"primaryPort": "http"}}})
        await world.becomes("GPUUnit", "demo", "UnitReady")
