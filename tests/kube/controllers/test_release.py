"""A deleted unit gives its GPUs back at once, and a unit that waits for its stock's pod always looks again."""

from __future__ import annotations

import pytest

from equipment.builders import a_deployment
from equipment.fault_proxy import creates, deletes, gets, watches
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import SOURCE_STOCK_NAME, SOURCE_STOCK_NAMESPACE, SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.labels import MANAGED_BY, MANAGER
from gpu_runtime.controllers import readiness
from gpu_runtime.controllers.gpuunit import admitter
from gpu_runtime.controllers.labels import CONTROLLED_BY
from kube.controllers.test_drift import ready_unit
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.test_handover import ready_stock
from kube.controllers.world import Document, World

TEARDOWN = "controllers/gpuunit/teardown.py"
ADMITTER = "controllers/gpuunit/admitter.py"
HELD = {"metadata": {"finalizers": ["test.example.com/hold"]}}
FREED = {"metadata": {"finalizers": None}}


async def admitted(world: World, stock: Document, name: str = "demo") -> None:
    """A unit that consumed the stock; its executor has not deleted it yet."""
    meta = stock["metadata"]
    notes = {
        SOURCE_STOCK_NAME: meta["name"],
        SOURCE_STOCK_NAMESPACE: meta["namespace"],
        SOURCE_STOCK_UID: meta["uid"],
    }
    await world.create(demo_unit(world, name).annotated(notes))


def asked(world: World) -> list[Document]:
    """The preconditions of each deletion of a Deployment that the controllers asked for."""
    mine = (world.namespace, world.stock_namespace)
    calls = [each.call for each in world.proxy.calls(deletes("deployments")) if each.call.namespace in mine]
    return [call.body["preconditions"] for call in calls]


@mutant(TEARDOWN, "and ORPHAN not in unit.finalizers", "")
async def test_a_unit_deleted_with_cascade_orphan_leaves_its_deployment_running(world: World) -> None:
    async with world.reconciling():
        before = (await ready_unit(world))["metadata"]
        # While the collector has not yet come to it, the unit is being deleted and still owns its children.
        await world.change("GPUUnit", "demo", HELD)
        await world.kubectl("delete", "gpuunit", "demo", "--cascade=orphan", "--wait=false")

        async def left_alone() -> bool:
            return not (await world.read("Deployment", "demo"))["metadata"].get("ownerReferences")

        await world.until(left_alone, "the Deployment has no owner any more")
        await world.change("GPUUnit", "demo", FREED)

        async def gone() -> bool:
            return not await world.exists("GPUUnit", "demo")

        await world.until(gone, "the unit is gone")
        await world.resync()
        after = (await world.read("Deployment", "demo"))["metadata"]
    assert after["uid"] == before["uid"]
    assert "deletionTimestamp" not in after
    assert asked(world) == []


@mutant(TEARDOWN, "if await self._lives(key, owner.uid):", "if False:")
async def test_a_unit_that_only_the_cache_has_lost_keeps_its_deployment(world: World) -> None:
    async with world.reconciling():
        before = await ready_unit(world)
        unit = await world.read("GPUUnit", "demo")
        mark = world.proxy.mark()
        world.proxy.on(watches("gpuunits"), times=1).inject({"type": "DELETED", "object": unit})
        await world.proxy.seen(gets("gpuunits").named("demo"), since=mark)
        await world.change("GPUUnit", "demo", {"metadata": {"labels": {"seen": "again"}}})
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
    after = await world.read("Deployment", "demo")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert asked(world) == []


@mutant(TEARDOWN, "return owner if ours else None", "return owner")
@mutant(TEARDOWN, "made is None or owner is None or", "made is None or")
async def test_a_deployment_that_no_unit_controls_survives_the_unit_of_its_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "NAME_CONFLICT_SECONDS", 0.5)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": True}
    owner["uid"] = (await config_map(world, "owner"))["metadata"]["uid"]
    labels = {MANAGED_BY: MANAGER}
    for name, owners in {"demo": [owner], "lonely": []}.items():
        made = a_deployment(name, world.namespace).replicas(0).labelled(labels).metadata(ownerReferences=owners)
        await world.create(made)
    async with world.reconciling():
        for name in ("demo", "lonely"):
            await world.create(demo_unit(world, name))
            await world.becomes("GPUUnit", name, "NameConflict")
            await world.remove("GPUUnit", name)
        await world.settled()
    assert len(await world.find("Deployment")) == 2
    assert asked(world) == []


async def config_map(world: World, name: str) -> Document:
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    return await world.request("POST", path, {"metadata": {"name": name}})


@mutant(ADMITTER, "words, RELEASE_SECONDS)", "words)")
@mutant(ADMITTER, "left = [pod.metadata.name for pod in listing.items if _runs_for(source, pod)]", "left = []")
@mutant(ADMITTER, 'owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == source.key.name', "False")
@pytest.mark.parametrize("lost", [(MANAGED_BY,), (CONTROLLED_BY,), (MANAGED_BY, CONTROLLED_BY)])
async def test_a_hand_over_waits_for_a_stock_pod_that_lost_its_label_and_goes_on_when_it_is_gone(
    world: World, lost: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitter, "RELEASE_SECONDS", 0.5)
    async with world.reconciling():
        stock = await ready_stock(world)
        pod = (await world.pod_of("stock-1", world.stock_namespace))["metadata"]["name"]
        taken = {"metadata": {"labels": dict.fromkeys(lost), **HELD["metadata"]}}
        await world.change("Pod", pod, taken, namespace=world.stock_namespace)
        await admitted(world, stock)
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "AwaitingStock", pod)
        assert world.proxy.count(creates("deployments").in_namespace(world.namespace)) == 0

        async def ends() -> bool:
            found = [each["metadata"] for each in await world.find("Pod", world.stock_namespace)]
            return any("deletionTimestamp" in each for each in found if each["name"] == pod)

        await world.until(ends, "the stock's pod is ending")
        await world.change("Pod", pod, FREED, namespace=world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "UnitReady")


@mutant(ADMITTER, "return source.uid in uids", "return True")
async def test_the_pod_of_a_later_stock_unit_of_the_same_name_holds_nobody_up(world: World) -> None:
    async with world.reconciling():
        old = await ready_stock(world)
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)

        async def gone() -> bool:
            return not await world.find("Deployment", world.stock_namespace)

        await world.until(gone, "the first one's Deployment is gone")
        await ready_stock(world)
        await admitted(world, old)
        await world.becomes("GPUUnit", "demo", "UnitReady")
