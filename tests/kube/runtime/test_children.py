"""Writes guard identity: what is ours is kept as we want it, what is not ours is never touched."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from equipment.fault_proxy import FaultProxy, creates, deletes, gets, patches, writes
from equipment.mutation import mutant
from equipment.waiting import eventually
from equipment.world import MakeConfigMap
from gpu_runtime.api.meta.object import Key, ObjectMeta, OwnerReference, controller_reference
from gpu_runtime.kube import Change, Children, Client, Conflict, NameConflict, Patch, Resource, Unreachable, Written
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap


class Port(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containerPort: int
    protocol: str = "TCP"


class Container(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    image: str
    ports: list[Port] = []


class PodSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containers: list[Container]


class Labels(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    labels: dict[str, str]


class Template(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: Labels
    spec: PodSpec


class Selector(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    matchLabels: dict[str, str]


class DeploymentSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    replicas: int
    selector: Selector
    template: Template


class Deployment(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: DeploymentSpec


DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", Deployment)


@pytest.fixture
async def owner(client: Client, config_map: MakeConfigMap) -> ConfigMap:
    return await client.create(CONFIG_MAPS, config_map("owner"))


def reference(owner: ConfigMap) -> OwnerReference:
    return controller_reference("v1", "ConfigMap", owner.metadata)


def a_child(owner: ConfigMap, **data: str) -> ConfigMap:
    meta = ObjectMeta(
        name="child", namespace=owner.metadata.namespace, labels={"ours": "yes"}, ownerReferences=[reference(owner)]
    )
    return ConfigMap(metadata=meta, data=data)


def a_deployment(owner: ConfigMap) -> Deployment:
    labels = {"app": "web"}
    pod = PodSpec(containers=[Container(name="web", image="busybox:1.36", ports=[Port(containerPort=8080)])])
    return Deployment(
        metadata=ObjectMeta(name="web", namespace=owner.metadata.namespace, ownerReferences=[reference(owner)]),
        spec=DeploymentSpec(
            replicas=0,
            selector=Selector(matchLabels=labels),
            template=Template(metadata=Labels(labels=labels), spec=pod),
        ),
    )


async def test_a_child_is_created_once_and_then_left_alone(
    proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    children = Children(proxied)
    made = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    assert made.change is Change.CREATED
    again = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), made.object)
    assert again.change is Change.NONE
    assert fault_proxy.count(writes()) == 1


@mutant("kube/children.py", "except AlreadyExists:", "except NotFound:")
async def test_a_create_whose_answer_was_lost_is_found_again_and_not_repeated(
    proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap
) -> None:
    children = Children(proxied)
    fault_proxy.on(creates("configmaps"), times=1).drop_response()
    with pytest.raises(Unreachable):
        await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    found = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    assert found.change is Change.NONE
    assert [write.status for write in fault_proxy.writes()] == [201, 409]


async def test_what_the_server_fills_in_is_no_difference(client: Client, owner: ConfigMap) -> None:
    children = Children(client)
    made = await children.ensure(DEPLOYMENTS, a_deployment(owner), None)
    live = await client.get(DEPLOYMENTS, made.object.metadata.key)
    assert (await children.ensure(DEPLOYMENTS, a_deployment(owner), live)).change is Change.NONE


HAND_EDITS: dict[str, dict[str, object]] = {
    "a container added": {
        "spec": {"template": {"spec": {"containers": [{"name": "web"}, {"name": "miner", "image": "busybox:1.36"}]}}}
    },
    "a port added": {
        "spec": {"template": {"spec": {"containers": [{"name": "web", "ports": [{"containerPort": 9999}]}]}}}
    },
    "the image changed": {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "busybox:1.0"}]}}}},
    "a pod label added": {"spec": {"template": {"metadata": {"labels": {"hand": "made"}}}}},
    "scaled": {"spec": {"replicas": 7}},
}


@pytest.mark.parametrize("edit", HAND_EDITS.values(), ids=HAND_EDITS)
@mutant("kube/children.py", "if not difference:", "if True:")
async def test_a_hand_edit_is_put_back(
    client: Client, owner: ConfigMap, namespace: str, edit: dict[str, object]
) -> None:
    children = Children(client)
    made = await children.ensure(DEPLOYMENTS, a_deployment(owner), None)
    key = Key(namespace, "web")

    edited = await client.patch(DEPLOYMENTS, key, edit, kind=Patch.STRATEGIC)
    assert edited.spec != made.object.spec

    async def repair() -> Written[Deployment] | None:
        try:
            return await children.ensure(DEPLOYMENTS, a_deployment(owner), await client.get(DEPLOYMENTS, key))
        except Conflict:
            return None  # the deployment controller wrote its status in between

    repaired = await eventually(repair)
    assert repaired is not None
    assert repaired.change is Change.CHANGED
    assert repaired.object.spec == a_deployment(owner).spec
    assert (await client.get(DEPLOYMENTS, key)).spec == made.object.spec


async def test_fields_and_labels_of_others_survive_our_repair(client: Client, owner: ConfigMap, namespace: str) -> None:
    children = Children(client)
    await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    key = Key(namespace, "child")
    theirs = {"metadata": {"labels": {"theirs": "kept"}}, "binaryData": {"blob": "AAEC"}, "data": {"text": "hand"}}
    edited = await client.patch(CONFIG_MAPS, key, theirs)
    repaired = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), edited)
    assert repaired.object.data == {"text": "1"}
    assert repaired.object.metadata.labels == {"ours": "yes", "theirs": "kept"}
    raw = await client.request("GET", CONFIG_MAPS.path(namespace, "child"), subject="read")
    assert msgspec.json.decode(raw)["binaryData"] == {"blob": "AAEC"}


@mutant(
    "kube/children.py", 'return {"uid": live.uid, "resourceVersion": live.resourceVersion}', 'return {"uid": live.uid}'
)
async def test_a_stale_cache_never_overwrites_a_newer_object(client: Client, owner: ConfigMap, namespace: str) -> None:
    children = Children(client)
    made = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    await client.patch(CONFIG_MAPS, Key(namespace, "child"), {"data": {"text": "newer"}})
    with pytest.raises(Conflict):
        await children.ensure(CONFIG_MAPS, a_child(owner, text="2"), made.object)
    assert (await client.get(CONFIG_MAPS, Key(namespace, "child"))).data == {"text": "newer"}


@mutant("kube/children.py", 'return {"uid": live.uid, "resourceVersion": live.resourceVersion}', "return {}")
async def test_a_patch_never_reaches_a_successor_of_the_same_name(
    client: Client, owner: ConfigMap, namespace: str
) -> None:
    children = Children(client)
    made = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    await client.delete(CONFIG_MAPS, Key(namespace, "child"))
    foreign = await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "namespace": namespace}})
    with pytest.raises(Conflict):
        await children.ensure(CONFIG_MAPS, a_child(owner, text="2"), made.object)
    assert await client.get(CONFIG_MAPS, Key(namespace, "child")) == foreign


@mutant("kube/children.py", "        check_ownership(resource, desired, cached, self.ownership)\n", "")
async def test_a_foreign_object_of_our_name_is_reported_and_never_touched(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap, namespace: str
) -> None:
    foreign = await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "namespace": namespace}})
    children = Children(proxied)
    for cached in (None, foreign):
        with pytest.raises(NameConflict, match="exists and is not ours: it has no owner; rename or delete it"):
            await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), cached)
    with pytest.raises(NameConflict):
        await children.delete(CONFIG_MAPS, owner.metadata, foreign)
    assert await client.get(CONFIG_MAPS, Key(namespace, "child")) == foreign
    assert [write.status for write in fault_proxy.writes()] == [409]


async def test_a_foreign_object_that_appears_between_our_look_and_our_create_is_not_touched(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap, namespace: str
) -> None:
    held = fault_proxy.on(creates("configmaps")).hold()
    ensuring = asyncio.create_task(Children(proxied).ensure(CONFIG_MAPS, a_child(owner, text="1"), None))
    await held.arrived()
    foreign = await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "namespace": namespace}})
    held.release()
    with pytest.raises(NameConflict):
        await ensuring
    assert await client.get(CONFIG_MAPS, Key(namespace, "child")) == foreign


async def test_a_foreign_object_that_replaces_ours_between_our_look_and_our_patch_is_not_touched(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap, namespace: str
) -> None:
    children = Children(proxied)
    made = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    held = fault_proxy.on(patches("configmaps")).hold()
    ensuring = asyncio.create_task(children.ensure(CONFIG_MAPS, a_child(owner, text="2"), made.object))
    await held.arrived()
    await client.delete(CONFIG_MAPS, Key(namespace, "child"))
    foreign = await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "namespace": namespace}})
    held.release()
    with pytest.raises(Conflict):
        await ensuring
    assert await client.get(CONFIG_MAPS, Key(namespace, "child")) == foreign


@mutant("kube/children.py", "cached.metadata.key, uid=uid, resource_version=version)", "cached.metadata.key)")
async def test_a_delete_never_reaches_a_successor_of_the_same_name(
    client: Client, proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap, namespace: str
) -> None:
    children = Children(proxied)
    made = await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    held = fault_proxy.on(deletes("configmaps")).hold()
    deleting = asyncio.create_task(children.delete(CONFIG_MAPS, owner.metadata, made.object))
    await held.arrived()
    await client.delete(CONFIG_MAPS, Key(namespace, "child"))
    foreign = await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "namespace": namespace}})
    held.release()
    with pytest.raises(Conflict):
        await deleting
    assert await client.get(CONFIG_MAPS, Key(namespace, "child")) == foreign


async def test_a_child_of_an_owner_that_was_made_again_under_its_name_is_foreign(
    client: Client, owner: ConfigMap, config_map: MakeConfigMap, namespace: str
) -> None:
    children = Children(client)
    made = await children.ensure(CONFIG_MAPS, a_child(owner, text="old"), None)
    await client.delete(CONFIG_MAPS, owner.metadata.key)
    successor = await client.create(CONFIG_MAPS, config_map("owner"))
    with pytest.raises(NameConflict):
        await children.ensure(CONFIG_MAPS, a_child(successor, text="new"), made.object)


async def test_a_child_on_its_way_out_is_waited_for(client: Client, owner: ConfigMap, namespace: str) -> None:
    children = Children(client)
    await children.ensure(CONFIG_MAPS, a_child(owner, text="1"), None)
    key = Key(namespace, "child")
    await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": ["example.org/wait"]}})
    await client.delete(CONFIG_MAPS, key)
    leaving = await client.get(CONFIG_MAPS, key)
    assert (await children.ensure(CONFIG_MAPS, a_child(owner, text="2"), leaving)).change is Change.DELETING
    await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": None}})


async def test_deleting_what_is_gone_is_no_error(proxied: Client, fault_proxy: FaultProxy, owner: ConfigMap) -> None:
    children = Children(proxied)
    made = await children.ensure(CONFIG_MAPS, a_child(owner), None)
    assert await children.delete(CONFIG_MAPS, owner.metadata, made.object)
    assert not await children.delete(CONFIG_MAPS, owner.metadata, made.object)
    assert fault_proxy.count(gets()) == 0
