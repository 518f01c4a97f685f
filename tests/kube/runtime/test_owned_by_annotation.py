"""Children without owner reference: they survive their owner, are never taken from others, and never leak."""

from __future__ import annotations

import asyncio

import pytest

from equipment.fault_proxy import FaultProxy, creates, deletes, gets, patches, writes
from equipment.mutation import mutant
from equipment.world import MakeConfigMap
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import (
    AlreadyExists,
    ByAnnotation,
    Children,
    ChildWriter,
    Client,
    Conflict,
    NameConflict,
    NotFound,
    OwnerGone,
    OwnWrites,
    Store,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap
from gpu_runtime.kube.child_writer import ATTEMPTS

OWNER = ByAnnotation(name="example.org/owner-name", uid="example.org/owner-uid")
HOLD = "example.org/hold"


@pytest.fixture
async def owner(client: Client, config_map: MakeConfigMap) -> ConfigMap:
    return await client.create(CONFIG_MAPS, config_map("owner"))


def a_child(owner: ConfigMap, finalizers: tuple[str, ...] = (), **data: str) -> ConfigMap:
    meta = ObjectMeta(
        name="child",
        namespace=owner.metadata.namespace,
        annotations=OWNER.annotations(owner.metadata),
        finalizers=[*finalizers],
    )
    return ConfigMap(metadata=meta, data=data)


def a_writer(client: Client) -> ChildWriter[ConfigMap]:
    return ChildWriter(CONFIG_MAPS, Children(client, OWNER))


def nothing_cached() -> OwnWrites[ConfigMap]:
    return OwnWrites(Store[ConfigMap]())


async def is_there(client: Client, key: Key) -> bool:
    try:
        await client.get(CONFIG_MAPS, key)
    except NotFound:
        return False
    return True


async def test_a_child_is_created_repaired_and_then_left_alone(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    writer, cache = a_writer(proxied), nothing_cached()
    made = await writer.ensure(owner, CONFIG_MAPS, a_child(owner, (HOLD,), text="1"), cache)
    assert made.metadata.ownerReferences == []
    edited = {"data": {"text": "hand"}, "metadata": {"finalizers": None}}
    cache.wrote(await client.patch(CONFIG_MAPS, made.metadata.key, edited))
    repaired = await writer.ensure(owner, CONFIG_MAPS, a_child(owner, (HOLD,), text="1"), cache)
    assert (repaired.data, repaired.metadata.finalizers) == ({"text": "1"}, [HOLD])
    await writer.ensure(owner, CONFIG_MAPS, a_child(owner, (HOLD,), text="1"), cache)
    assert fault_proxy.count(writes()) == 2
    await client.patch(CONFIG_MAPS, made.metadata.key, {"metadata": {"finalizers": None}})


async def test_a_child_of_another_owner_and_one_without_owner_are_never_touched(
    client: Client, owner: ConfigMap, config_map: MakeConfigMap
) -> None:
    writer = a_writer(client)
    made = await writer.ensure(owner, CONFIG_MAPS, a_child(owner, text="1"), nothing_cached())
    successor = await client.create(CONFIG_MAPS, config_map("successor"))
    with pytest.raises(NameConflict, match=f"it belongs to owner with UID {owner.metadata.uid}"):
        await writer.ensure(successor, CONFIG_MAPS, a_child(successor, text="2"), nothing_cached())
    freed = await client.patch(CONFIG_MAPS, made.metadata.key, {"metadata": {"annotations": None}})
    with pytest.raises(NameConflict, match="it has no owner"):
        await writer.ensure(owner, CONFIG_MAPS, a_child(owner, text="2"), nothing_cached())
    cache = nothing_cached()
    cache.wrote(freed)
    await writer.remove(owner, CONFIG_MAPS, made.metadata.key, cache)
    assert await client.get(CONFIG_MAPS, made.metadata.key) == freed


@mutant("kube/children.py", "uid=uid, resource_version=version)", "uid=uid)")
async def test_a_child_that_somebody_took_from_us_after_our_look_is_not_deleted(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    writer, cache = a_writer(proxied), nothing_cached()
    made = await writer.ensure(owner, CONFIG_MAPS, a_child(owner, text="data"), cache)
    held = fault_proxy.on(deletes("configmaps")).hold()
    removing = asyncio.create_task(writer.remove(owner, CONFIG_MAPS, made.metadata.key, cache))
    await held.arrived()
    await client.patch(CONFIG_MAPS, made.metadata.key, {"metadata": {"annotations": None}})
    held.release()
    with pytest.raises(Conflict):
        await removing
    assert (await client.get(CONFIG_MAPS, made.metadata.key)).data == {"text": "data"}


@mutant(
    "kube/child_writer.py",
    "if written.change is Change.CREATED and not self.children.ownership.is_collected:",
    "if False:",
)
@mutant("kube/child_writer.py", "left = await remove_finalizers(client, resource, child, finalizers)", "left = child")
async def test_a_child_that_is_created_after_its_owner_was_deleted_is_deleted_again(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    held = fault_proxy.on(creates("configmaps")).hold()
    child = a_child(owner, (HOLD,))
    ensuring = asyncio.create_task(a_writer(proxied).ensure(owner, CONFIG_MAPS, child, nothing_cached()))
    await held.arrived()
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    held.release()
    with pytest.raises(OwnerGone, match=r"ConfigMap .*/owner was deleted while its ConfigMap was created"):
        await ensuring
    assert not await is_there(client, child.metadata.key)


@mutant("kube/child_writer.py", "        if not self.children.ownership.is_collected:\n", "        if False:\n")
async def test_a_child_that_is_only_ever_created_is_deleted_again_too_when_its_owner_is_gone(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    held = fault_proxy.on(creates("configmaps")).hold()
    child = a_child(owner, (HOLD,))
    creating = asyncio.create_task(a_writer(proxied).create(owner, CONFIG_MAPS, child, nothing_cached()))
    await held.arrived()
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    held.release()
    with pytest.raises(OwnerGone):
        await creating
    assert not await is_there(client, child.metadata.key)


async def test_create_never_changes_a_child_that_is_there(client: Client, owner: ConfigMap) -> None:
    writer = a_writer(client)
    made = await writer.create(owner, CONFIG_MAPS, a_child(owner, text="1"), nothing_cached())
    with pytest.raises(AlreadyExists):
        await writer.create(owner, CONFIG_MAPS, a_child(owner, text="2"), nothing_cached())
    assert await client.get(CONFIG_MAPS, made.metadata.key) == made


@mutant("kube/child_writer.py", "                child = live\n", "")
async def test_a_child_that_others_write_to_at_once_is_deleted_again_all_the_same(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    held, child = fault_proxy.on(patches("configmaps"), times=1).hold(), a_child(owner, (HOLD,))
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    ensuring = asyncio.create_task(a_writer(proxied).ensure(owner, CONFIG_MAPS, child, nothing_cached()))
    await held.arrived()
    await client.patch(CONFIG_MAPS, child.metadata.key, {"metadata": {"labels": {"bound-by": "another-controller"}}})
    held.release()
    with pytest.raises(OwnerGone):
        await ensuring
    assert not await is_there(client, child.metadata.key)


@mutant("kube/child_writer.py", "if attempt == ATTEMPTS - 1:", "if False:")
async def test_a_child_that_cannot_be_deleted_again_is_not_called_deleted(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    child = a_child(owner, (HOLD,))
    fault_proxy.on(patches("configmaps")).answer(409)
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    with pytest.raises(Conflict):
        await a_writer(proxied).ensure(owner, CONFIG_MAPS, child, nothing_cached())
    assert fault_proxy.count(patches("configmaps")) == ATTEMPTS
    await client.patch(CONFIG_MAPS, child.metadata.key, {"metadata": {"finalizers": None}})


@mutant("kube/child_writer.py", "return live if live.metadata.uid == child.metadata.uid else None", "return live")
async def test_a_child_that_another_replica_made_in_place_of_ours_is_left_alone(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    held, child = fault_proxy.on(patches("configmaps"), times=1).hold(), a_child(owner, (HOLD,))
    key = child.metadata.key
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    ensuring = asyncio.create_task(a_writer(proxied).ensure(owner, CONFIG_MAPS, child, nothing_cached()))
    await held.arrived()
    await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": None}})
    await client.delete(CONFIG_MAPS, key)
    theirs = await client.create(CONFIG_MAPS, a_child(owner, text="data"))
    held.release()
    with pytest.raises(OwnerGone):
        await ensuring
    assert await client.get(CONFIG_MAPS, key) == theirs


@mutant(
    "kube/child_writer.py", "if live.uid == meta.uid and live.deletionTimestamp is None:", "if live.uid == meta.uid:"
)
async def test_a_child_that_is_created_while_its_owner_is_being_deleted_is_deleted_again(
    client: Client, proxied: Client, owner: ConfigMap
) -> None:
    key = owner.metadata.key
    kept = await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": [HOLD]}})
    await client.delete(CONFIG_MAPS, key)
    with pytest.raises(OwnerGone):
        await a_writer(proxied).ensure(kept, CONFIG_MAPS, a_child(owner), nothing_cached())
    assert not await is_there(client, a_child(owner).metadata.key)
    await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": None}})


@mutant("kube/child_writer.py", "if live.uid == meta.uid and", "if live.uid and")
async def test_a_successor_of_the_owners_name_does_not_keep_the_child(
    client: Client, owner: ConfigMap, config_map: MakeConfigMap
) -> None:
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    await client.create(CONFIG_MAPS, config_map("owner"))
    with pytest.raises(OwnerGone):
        await a_writer(client).ensure(owner, CONFIG_MAPS, a_child(owner), nothing_cached())
    assert not await is_there(client, a_child(owner).metadata.key)


@mutant("kube/child_writer.py", "if written.change is Change.CREATED and not", "if not")
async def test_a_child_that_was_there_before_is_not_deleted_though_its_owner_is_being_deleted(
    client: Client, owner: ConfigMap
) -> None:
    """A replica whose caches show neither the child nor the deletion must not delete data that is still in use."""
    writer, key = a_writer(client), owner.metadata.key
    kept = await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": [HOLD]}})
    made = await writer.ensure(kept, CONFIG_MAPS, a_child(owner, text="data"), nothing_cached())
    await client.delete(CONFIG_MAPS, key)
    assert await writer.ensure(kept, CONFIG_MAPS, a_child(owner, text="data"), nothing_cached()) == made
    assert await client.get(CONFIG_MAPS, made.metadata.key) == made
    await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": None}})


async def test_a_child_that_is_known_costs_no_read_of_its_owner(
    proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    writer, cache = a_writer(proxied), nothing_cached()
    await writer.ensure(owner, CONFIG_MAPS, a_child(owner), cache)
    mark = fault_proxy.mark()
    await writer.ensure(owner, CONFIG_MAPS, a_child(owner, text="2"), cache)
    assert fault_proxy.count(gets(), since=mark) == 0
