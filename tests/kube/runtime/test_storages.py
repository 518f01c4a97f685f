"""A storage on an API server: its claim is made once, grows, survives careless deletes, and goes with the storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from equipment.builders import a_unit
from equipment.fault_proxy import FaultProxy, creates, watches, writes
from equipment.servers import ApiServer, fresh_namespace
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import CLAIM_FINALIZER, STORAGE_FINALIZER
from gpu_runtime.cmd.up.install import install
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.product_kinds import GPU_STORAGES, GPU_UNITS
from gpu_runtime.kube import Client, Manager, NotFound, load_config
from gpu_runtime.local.controllers.assembly import Workloads
from gpu_runtime.local.controllers.namespaces import NAMESPACES
from kube.runtime.storage_world import NAME, StorageWorld, held_by, ready_of, reconciling
from kube.runtime.test_third_kind import resynced


@pytest.fixture(scope="session")
def installed(api_server: ApiServer) -> ApiServer:
    asyncio.run(install(api_server.kubeconfig))
    return api_server


@pytest.fixture
async def controllers(installed: ApiServer, tmp_path: Path) -> AsyncIterator[None]:
    """Those of Kubernetes: beside a real server they run already, beside the embedded one they run for the test."""
    if installed.kind == "real":
        yield
        return
    stop = asyncio.Event()
    async with (
        Client(load_config(installed.kubeconfig), user_agent="local-controllers") as client,
        asyncio.TaskGroup() as group,
    ):
        cluster = Workloads(client, tmp_path)
        group.create_task(cluster.run(stop))
        try:
            await asyncio.wait_for(cluster.manager.leading.wait(), 60)
            yield
        finally:
            stop.set()


@pytest.fixture
async def world(controllers: None, client: Client, namespace: str) -> AsyncIterator[StorageWorld]:
    made = StorageWorld(client, namespace)
    yield made
    await made.clean_up()


async def test_a_claim_is_made_bound_grown_and_deleted_with_its_storage(world: StorageWorld, proxied: Client) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.create("1Gi")
        await eventually(lambda: is_pending(world), what="the storage says that it is pending")
        claim = await world.claim()
        assert claim.metadata.ownerReferences == []
        assert CLAIM_FINALIZER in claim.metadata.finalizers
        await world.add_volume("1Gi")
        ready = await world.becomes("StorageReady")
        assert ready.metadata.finalizers == [STORAGE_FINALIZER]
        status = ready.status
        assert (status.phase, status.claimName, status.capacity, status.mountable) == ("Ready", "data", "1Gi", True)
        assert [(each.type, each.reason) for each in status.conditions] == [
            ("Ready", "StorageReady"),
            ("Prepared", "StoragePrepareNotRequested"),
            ("AccessorReady", "StorageAccessorDisabled"),
        ]
        await world.change({"spec": {"size": "2Gi"}})
        await world.asks_for("2Gi")
        await world.grow_volume("2Gi")
        grown = await world.becomes("StorageReady")
        assert grown.status.capacity == "2Gi"
        await world.client.delete(GPU_STORAGES, world.key)
        await world.gone()


async def is_pending(world: StorageWorld) -> bool:
    """Whether it tells why: the driver is silent beside a real server, and unknown beside the embedded one."""
    status = (await world.storage()).status
    return status.phase == "Pending" and not status.mountable and "example.org/away" in status.conditions[0].message


async def test_a_storage_at_rest_and_a_restart_cost_no_write(
    world: StorageWorld, proxied: Client, fault_proxy: FaultProxy
) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.bound()
    mark = fault_proxy.mark()
    async with reconciling(proxied) as manager:
        for _ in range(3):
            await resynced(manager)
    assert fault_proxy.count(writes(), since=mark) == 0


async def at_rest(manager: Manager) -> None:
    await eventually(lambda: not manager._controllers[0].queue.pending(), what="the reconciler is at rest")


async def test_a_foreground_deletion_leaves_the_claim_alone_while_somebody_holds_the_storage(
    world: StorageWorld, proxied: Client
) -> None:
    await world.add_class()
    async with reconciling(proxied):
        before = await world.bound()
        unit = await world.client.create(GPU_UNITS, a_unit("demo", world.namespace).mounting(NAME).document())
        await world.change(held_by(unit))
        await eventually(lambda: held(world), what="the status shows the holder")
        await world.client.delete(GPU_STORAGES, world.key, propagation="Foreground")
        after = await world.becomes("StorageDeleting", "waiting until unit demo no longer holds it")
        assert after.status.mountable == before.status.mountable
        claim = await world.claim()
        assert claim.metadata.deletionTimestamp is None
        assert claim.is_bound
        await world.client.delete(GPU_UNITS, unit.metadata.key)
        await world.gone()


async def held(world: StorageWorld) -> bool:
    holds = (await world.storage()).status.attachedTo
    return holds is not None and holds.unit == "demo"


async def test_a_claim_that_is_deleted_by_hand_keeps_its_data_and_is_never_made_again(
    world: StorageWorld, proxied: Client
) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.bound()
        await world.client.delete(CLAIMS, world.key)
        lost = await world.becomes("StorageClaimLost", "its data is still there")
        assert (lost.status.phase, lost.status.mountable) == ("Failed", False)
        await world.client.patch(CLAIMS, world.key, {"metadata": {"finalizers": None}})
        await world.becomes("StorageClaimLost", "was deleted, and its data with it")
        with pytest.raises(NotFound):
            await world.claim()
        await world.client.delete(GPU_STORAGES, world.key)
        await world.gone()


async def test_a_claim_that_is_deleted_by_hand_goes_with_its_storage(world: StorageWorld, proxied: Client) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.bound()
        await world.client.delete(CLAIMS, world.key)
        await world.becomes("StorageClaimLost", "its data is still there")
        await world.client.delete(GPU_STORAGES, world.key)
        await world.gone()


async def test_a_claim_that_loses_its_volume_is_told_until_the_volume_is_back(
    world: StorageWorld, proxied: Client
) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.bound()
        await world.lose_volume()
        lost = await world.becomes("StorageClaimLost", "lost its volume")
        assert not lost.status.mountable
        await world.add_volume(claim_uid=(await world.claim()).metadata.uid)
        found = await world.becomes("StorageReady")
        assert found.status.mountable


async def test_a_class_that_is_missing_or_waits_for_a_consumer_is_told(world: StorageWorld, proxied: Client) -> None:
    async with reconciling(proxied):
        await world.create()
        await world.becomes("StorageProvisioningFailed", f"StorageClass {world.storage_class} does not exist")
        await world.add_class(volumeBindingMode="WaitForFirstConsumer")
        waiting = await world.becomes("StorageAwaitingConsumer")
        assert (waiting.status.phase, waiting.status.mountable) == ("Pending", True)


async def test_a_class_that_cannot_expand_keeps_the_storage_mountable_until_it_can(
    world: StorageWorld, proxied: Client
) -> None:
    await world.add_class(allowVolumeExpansion=False)
    async with reconciling(proxied):
        await world.bound("1Gi")
        await world.change({"spec": {"size": "2Gi"}})
        refused = await world.becomes("StorageResizeFailed", "stays at 1Gi and does not grow to 2Gi")
        assert world.storage_class in ready_of(refused).message
        assert (refused.status.phase, refused.status.mountable) == ("Ready", True)
        assert str((await world.claim()).requested) == "1Gi"
        await world.change_class(allowVolumeExpansion=True)
        await world.asks_for("2Gi")


async def test_a_growth_that_the_server_refuses_is_told_and_not_asked_for_again(
    world: StorageWorld, proxied: Client, fault_proxy: FaultProxy
) -> None:
    await world.add_class()
    async with reconciling(proxied) as manager:
        await world.bound("1Gi")
        await world.limit("1Gi")
        await world.change({"spec": {"size": "2Gi"}})
        refused = await world.becomes("StorageResizeFailed", "exceeded quota")
        assert (refused.status.phase, refused.status.mountable) == ("Ready", True)
        mark = fault_proxy.mark()
        await resynced(manager)
    assert fault_proxy.count(writes("persistentvolumeclaims"), since=mark) == 0


async def test_a_shrink_is_refused_in_words_and_nothing_shrinks(world: StorageWorld, proxied: Client) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.bound("2Gi")
        await world.change({"spec": {"size": "1Gi"}})
        refused = await world.becomes("StorageInvalidSpec", "1Gi is less than 2Gi")
        assert refused.status.mountable
        assert str((await world.claim()).requested) == "2Gi"
        await world.change({"spec": {"size": "2048Mi"}})
        await world.becomes("StorageReady")


async def test_a_claim_of_somebody_else_is_never_touched(world: StorageWorld, proxied: Client) -> None:
    await world.add_class()
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": world.storage_class,
    }
    meta = {"name": world.key.name, "namespace": world.namespace}
    theirs = await world.client.create(CLAIMS, {"metadata": meta, "spec": spec})
    async with reconciling(proxied):
        await world.create()
        await world.becomes("NameConflict", "exists and is not ours")
        await world.client.delete(GPU_STORAGES, world.key)
        await eventually(lambda: is_gone(world.client, world.key), what="the storage is gone")
    left = await world.claim()
    assert (left.metadata.uid, left.metadata.labels, left.spec) == (theirs.metadata.uid, {}, theirs.spec)


async def is_gone(client: Client, key: Key) -> bool:
    try:
        await client.get(GPU_STORAGES, key)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound", "pending"])
async def test_the_deletion_of_a_namespace_takes_storages_along(
    world: StorageWorld, proxied: Client, installed: ApiServer, is_bound: bool
) -> None:
    with fresh_namespace(installed, "to-be-deleted") as namespace:
        inside = StorageWorld(world.client, namespace)
        await inside.add_class()
        async with reconciling(proxied):
            await (inside.bound() if is_bound else inside.create())
            await inside.change({"metadata": {"labels": {"seen": "yes"}}})
            await world.client.delete(NAMESPACES, Key("", namespace))
            await eventually(lambda: namespace_gone(world.client, namespace), what="the namespace is gone", within=120)
        await inside.clean_up()


async def namespace_gone(client: Client, name: str) -> bool:
    try:
        await client.get(NAMESPACES, Key("", name))
    except NotFound:
        return True
    return False


async def test_a_claim_that_comes_after_the_deletion_of_its_storage_goes_again(
    world: StorageWorld, proxied: Client, fault_proxy: FaultProxy
) -> None:
    await world.add_class()
    held = fault_proxy.on(creates("persistentvolumeclaims"), times=1).hold()
    async with reconciling(proxied) as late:
        await world.create()
        await held.arrived()
        async with reconciling(world.client):
            await world.client.delete(GPU_STORAGES, world.key)
            await eventually(lambda: is_gone(world.client, world.key), what="the storage is gone")
        held.release()
        await at_rest(late)
        await world.gone()


@asynccontextmanager
async def frozen(fault_proxy: FaultProxy, *kinds: str) -> AsyncIterator[None]:
    """The caches behind the proxy show nothing new inside the block."""
    silent = [fault_proxy.on(watches(kind)).freeze() for kind in kinds]
    yield
    for each in silent:
        each.thaw()


async def test_a_replica_with_old_caches_neither_makes_a_claim_anew_nor_leaves_one_behind(
    world: StorageWorld, proxied: Client, fault_proxy: FaultProxy
) -> None:
    """Two replicas work at once: one sees everything, the other has seen the storage before it had a claim."""
    await world.add_class()
    async with reconciling(proxied) as late:
        async with frozen(fault_proxy, "gpustorages", "persistentvolumeclaims"), reconciling(world.client):
            await world.bound()
            await world.client.delete(GPU_STORAGES, world.key)
            await world.gone()
        await at_rest(late)
        await world.gone()
