"""Every verb of the client, and every trouble as one clear line."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from equipment.fault_proxy import FaultProxy, creates, deletes, patches, updates, watches
from equipment.mutation import mutant
from equipment.servers import ApiServer
from equipment.waiting import eventually
from equipment.world import MakeConfigMap, Widgets
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import (
    AlreadyExists,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    Manager,
    NotFound,
    Patch,
    Query,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    load_config,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, NAMESPACES, ConfigMap, Namespace
from gpu_runtime.kube.clock import SYSTEM_CLOCK
from gpu_runtime.kube.credentials import FileToken
from kube.runtime.test_manager import a_parent, copying, running
from realkube.certificates import Authority


async def test_create_get_replace_delete(client: Client, config_map: MakeConfigMap, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", text="1"))
    assert made.metadata.uid
    assert made.metadata.creationTimestamp is not None
    assert await client.get(CONFIG_MAPS, Key(namespace, "a")) == made
    changed = await client.replace(CONFIG_MAPS, ConfigMap(metadata=made.metadata, data={"text": "2"}))
    assert changed.data == {"text": "2"}
    await client.delete(CONFIG_MAPS, Key(namespace, "a"))
    with pytest.raises(NotFound, match=f"get configmaps {namespace}/a: "):
        await client.get(CONFIG_MAPS, Key(namespace, "a"))


async def test_a_name_can_be_left_to_the_server(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, {"metadata": {"generateName": "run-", "namespace": namespace}})
    assert made.metadata.name.startswith("run-")


async def test_a_taken_name_and_a_stale_version_are_different_errors(
    client: Client, config_map: MakeConfigMap, namespace: str
) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"))
    await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"text": "newer"}})
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, made)


PATCHES: dict[str, tuple[Patch, object]] = {
    "JSON": (Patch.JSON, [{"op": "replace", "path": "/data/text", "value": "new"}]),
    "merge": (Patch.MERGE, {"data": {"text": "new"}}),
    "strategic merge": (Patch.STRATEGIC, {"data": {"text": "new"}}),
}


@pytest.mark.parametrize(("kind", "patch"), PATCHES.values(), ids=PATCHES)
async def test_each_form_of_patch(
    client: Client, config_map: MakeConfigMap, namespace: str, kind: Patch, patch: dict[str, object]
) -> None:
    await client.create(CONFIG_MAPS, config_map("a", text="old", other="kept"))
    patched = await client.patch(CONFIG_MAPS, Key(namespace, "a"), patch, kind=kind)
    assert patched.data == {"text": "new", "other": "kept"}


async def test_status_and_scale_are_written_apart_from_the_spec(
    client: Client, widgets: Widgets, namespace: str
) -> None:
    await widgets.install()
    key = Key(namespace, "w")
    await client.create(widgets.resource, {"metadata": {"name": "w", "namespace": namespace}, "spec": {"size": 3}})
    written = await client.patch(
        widgets.resource, key, {"spec": {"size": 9}, "status": {"phase": "Ready"}}, subresource="status"
    )
    assert (written.spec.size, written.status.phase) == (3, "Ready")
    await client.patch(widgets.resource, key, {"spec": {"replicas": 5}}, subresource="scale")
    assert (await client.get(widgets.resource, key)).spec.size == 5


async def test_a_refused_object_names_the_field(client: Client, widgets: Widgets, namespace: str) -> None:
    await widgets.install()
    with pytest.raises(Invalid, match=r"spec\.size") as caught:
        await client.create(widgets.resource, {"metadata": {"name": "w", "namespace": namespace}, "spec": {"size": -1}})
    assert "spec.size" in [cause.field for cause in caught.value.causes]


async def test_a_dry_run_changes_nothing(client: Client, config_map: MakeConfigMap, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a"), dry_run=True)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, Key(namespace, "a"))


@mutant(
    "kube/client.py",
    '(("uid", uid), ("resourceVersion", resource_version))',
    '(("resourceVersion", resource_version),)',
)
async def test_a_delete_meant_for_another_object_of_that_name_is_a_conflict(
    client: Client, config_map: MakeConfigMap, namespace: str
) -> None:
    first = await client.create(CONFIG_MAPS, config_map("a"))
    await client.delete(CONFIG_MAPS, Key(namespace, "a"), uid=first.metadata.uid)
    second = await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, Key(namespace, "a"), uid=first.metadata.uid)
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, Key(namespace, "a"), resource_version="1")
    await client.delete(
        CONFIG_MAPS,
        Key(namespace, "a"),
        uid=second.metadata.uid,
        resource_version=second.metadata.resourceVersion,
        propagation="Foreground",
    )


async def test_lists_are_paged_at_one_version_and_filtered(client: Client, namespace: str) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        meta = ObjectMeta(name=name, namespace=namespace, labels={"color": color})
        await client.create(CONFIG_MAPS, ConfigMap(metadata=meta))
    red = Query(CONFIG_MAPS, namespace, labels="color=red")
    first = await client.page(red, limit=1)
    await client.delete(CONFIG_MAPS, Key(namespace, "c"))
    second = await client.page(red, limit=1, token=first.token)
    assert [obj.metadata.name for obj in first.items + second.items] == ["a", "c"]
    assert [obj.metadata.name for obj in (await client.list(red)).items] == ["a"]
    by_name = Query(CONFIG_MAPS, namespace, fields="metadata.name=b")
    assert [obj.metadata.name for obj in (await client.list(by_name)).items] == ["b"]
    await client.delete_collection(Query(CONFIG_MAPS, namespace, labels="color"))
    assert (await client.list(Query(CONFIG_MAPS, namespace, labels="color"))).items == []


async def test_the_answer_of_a_server_that_asks_for_patience_says_for_how_long(
    proxied: Client, fault_proxy: FaultProxy, config_map: MakeConfigMap
) -> None:
    fault_proxy.on(creates("configmaps")).answer(429, headers={"Retry-After": "7"})
    with pytest.raises(TooManyRequests) as caught:
        await proxied.create(CONFIG_MAPS, config_map("a"))
    assert caught.value.retry_after == 7.0


async def test_a_write_whose_answer_is_lost_is_unknown_not_failed(
    proxied: Client, client: Client, fault_proxy: FaultProxy, config_map: MakeConfigMap, namespace: str
) -> None:
    fault_proxy.on(creates("configmaps")).drop_response()
    with pytest.raises(Unreachable, match=f"create configmaps {namespace}/a: the connection to https://.* broke"):
        await proxied.create(CONFIG_MAPS, config_map("a"))
    assert (await client.get(CONFIG_MAPS, Key(namespace, "a"))).metadata.name == "a"
    assert fault_proxy.count(creates("configmaps")) == 1, "the client never sends a write twice by itself"


@mutant("kube/transport.py", "middlewares=(_Once(),) if method in REPEATED_BY_AIOHTTP else (),", "")
async def test_no_write_is_sent_twice_over_a_kept_connection_that_breaks(
    proxied: Client, fault_proxy: FaultProxy, config_map: MakeConfigMap, namespace: str
) -> None:
    key = Key(namespace, "a")
    await proxied.get(NAMESPACES, Key("", namespace))
    fault_proxy.on(creates("configmaps"), times=1).drop_response()
    with pytest.raises(Unreachable):
        await proxied.create(CONFIG_MAPS, config_map("a", text="1"))
    made = await proxied.get(CONFIG_MAPS, key)
    fault_proxy.on(updates("configmaps"), times=1).drop_response()
    with pytest.raises(Unreachable):
        await proxied.replace(CONFIG_MAPS, ConfigMap(metadata=made.metadata, data={"text": "2"}))
    assert (await proxied.get(CONFIG_MAPS, key)).data == {"text": "2"}
    fault_proxy.on(patches("configmaps"), times=1).drop_response()
    with pytest.raises(Unreachable):
        await proxied.patch(CONFIG_MAPS, key, {"data": {"text": "3"}})
    assert (await proxied.get(CONFIG_MAPS, key)).data == {"text": "3"}
    fault_proxy.on(deletes("configmaps"), times=1).drop_response()
    with pytest.raises(Unreachable):
        await proxied.delete(CONFIG_MAPS, key)
    assert [write.call.verb for write in fault_proxy.writes()] == ["create", "update", "patch", "delete"]


@mutant("kube/transport.py", "not self.config.token.expire()", "True")
async def test_a_rotated_token_is_picked_up_at_once(api_server: ApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    config = replace(load_config(api_server.kubeconfig), token=FileToken(token, SYSTEM_CLOCK))
    async with Client(config) as client:
        with pytest.raises(Unauthorized):
            await client.get(NAMESPACES, Key("", "default"))
        await config.token.token()
        token.write_text(api_server.token)
        assert (await client.get(NAMESPACES, Key("", "default"))).metadata.name == "default"


async def test_an_expired_token_is_one_line_that_names_the_server_and_the_file(
    api_server: ApiServer, tmp_path: Path
) -> None:
    stranger = api_server.with_token("expired", tmp_path)
    async with Client(load_config(stranger.kubeconfig)) as client:
        with pytest.raises(Unauthorized) as caught:
            await client.get(NAMESPACES, Key("", "default"))
    assert str(caught.value) == (
        f"get namespaces default: Unauthorized: {api_server.url} does not accept the credentials of "
        f"{client.config.source}: they may have expired; log in again or renew the token"
    )
    assert "expired;" not in client.config.source


async def test_what_we_may_not_do_is_forbidden(proxied: Client, fault_proxy: FaultProxy) -> None:
    fault_proxy.on(creates("namespaces")).answer(403)
    with pytest.raises(Forbidden, match=r"^create namespaces never: "):
        await proxied.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="never")))


async def test_a_server_that_is_not_there_is_one_line_that_says_what_to_check(
    api_server: ApiServer, tmp_path: Path
) -> None:
    nowhere = api_server.with_url("https://127.0.0.1:1", api_server.ca_file, tmp_path)
    async with Client(load_config(nowhere.kubeconfig)) as client:
        with pytest.raises(Unreachable) as caught:
            await client.get(NAMESPACES, Key("", "default"))
    said = str(caught.value)
    assert said.startswith("get namespaces default: cannot reach https://127.0.0.1:1: ")
    assert said.endswith(f"is the cluster up, and is {client.config.source} the right one?")


async def test_a_certificate_of_another_authority_is_refused_by_name(api_server: ApiServer, tmp_path: Path) -> None:
    stranger = api_server.with_url(api_server.url, Authority(tmp_path).ca_file, tmp_path)
    async with Client(load_config(stranger.kubeconfig)) as client:
        with pytest.raises(Unreachable, match="is not signed by the authority in "):
            await client.get(NAMESPACES, Key("", "default"))


async def test_a_client_outside_of_its_block_says_so(api_server: ApiServer) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client(load_config(api_server.kubeconfig)).get(NAMESPACES, Key("", "default"))


@mutant("kube/transport.py", "aiohttp.TCPConnector(limit=0,", "aiohttp.TCPConnector(limit=self._connections,")
async def test_150_watches_of_one_client_stop_no_other_work_of_its_process(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    manager = copying(Manager(proxied), namespace)
    query = Query(CONFIG_MAPS, namespace)
    version = (await client.list(query)).resource_version
    seen = [asyncio.Event() for _ in range(150)]

    async def follow(told: asyncio.Event) -> None:
        events = proxied.watch(query, resource_version=version, timeout=300, silence=300)
        async with aclosing(events):
            async for event in events:
                if event.key.name == "parent-child":
                    told.set()

    async with running(manager):
        watches_open = [asyncio.create_task(follow(told)) for told in seen]
        await eventually(lambda: len(fault_proxy.streams(watches("configmaps"))) >= len(seen), what="all are open")
        await client.create(CONFIG_MAPS, a_parent(namespace))
        await eventually(lambda: all(told.is_set() for told in seen), what="every watch sees what was done beside it")
        for task in watches_open:
            task.cancel()
        await asyncio.gather(*watches_open, return_exceptions=True)
