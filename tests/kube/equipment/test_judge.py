"""What the judge sees of a real server: lives from writes, from a watch, and from listings."""

from __future__ import annotations

import json

import pytest

from equipment.builders import Builder, a_config_map, a_deployment, a_namespace, a_service, a_widget, widget_definition
from equipment.fault_proxy import FaultProxy, expired, writes
from equipment.judge import Witness, list_objects, orphans, quiet, timeline
from equipment.servers import ApiServer
from equipment.waiting import eventually, eventually_sync

GROUP = "judge.test.gpu-runtime.dev"


async def create(proxy: FaultProxy, builder: Builder) -> None:
    await proxy.kubectl("create", "-f", "-", input=json.dumps(builder.document()))


async def test_writes_a_witness_and_listings_agree_on_what_happened(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with Witness(api_server, [path]) as witness:
        mark = fault_proxy.mark()
        await create(fault_proxy, a_config_map("a", namespace).data(x="1"))
        await create(fault_proxy, a_config_map("b", namespace))
        await fault_proxy.kubectl("-n", namespace, "annotate", "configmap", "a", "mark=yes")
        await fault_proxy.kubectl("-n", namespace, "delete", "configmap", "a")
        await fault_proxy.kubectl("-n", namespace, "annotate", "configmap", "b", "mark=last")
        await witness.caught_up(fault_proxy.writes()[-1].resource_version)
        after = await list_objects(api_server, path)
    written = timeline(fault_proxy.writes(), before=witness.before, after=after)
    watched = timeline(before=witness.before, events=witness.events)
    for seen in (written, watched):
        [first] = [life for life in seen.lives.values() if life.name == "a"]
        assert [value for _, value in first.annotation("mark")] == ["", "yes"]
        assert first.gone
    assert written.lives.keys() == watched.lives.keys()
    assert len(quiet(fault_proxy.calls(since=mark))) == 5
    assert quiet(fault_proxy.calls(since=fault_proxy.mark())) == []


async def test_an_orphan_on_a_real_server_is_seen(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await create(fault_proxy, a_config_map("owner", namespace))
    [owner] = fault_proxy.writes(writes("configmaps"))
    child = a_config_map("child", namespace).controlled_by(a_config_map("owner").with_uid(owner.uid))
    await create(fault_proxy, child)
    listed = await list_objects(api_server, path)
    assert orphans(listed) == []
    # The garbage collector would be faster than a second listing.
    [violation] = orphans(document for document in listed if document["metadata"]["name"] != "owner")
    assert violation == f"ConfigMap {namespace}/child: its owner ConfigMap owner (uid {owner.uid}) is gone"


def test_a_real_server_takes_what_the_builders_make(api_server: ApiServer, namespace: str) -> None:
    for builder in (
        a_namespace("never-made"),
        a_config_map("a", namespace).data(x="1"),
        a_deployment("d", namespace),
        a_service("s", namespace),
    ):
        manifest = json.dumps(builder.document())
        assert "created" in api_server.kubectl("create", "--dry-run=server", "-f", "-", input=manifest).stdout


def test_a_real_server_serves_widgets(api_server: ApiServer, namespace: str) -> None:
    definition = widget_definition(GROUP)
    api_server.kubectl("apply", "-f", "-", input=json.dumps(definition))
    try:
        api_server.kubectl("wait", "--for=condition=Established", f"crd/widgets.{GROUP}", "--timeout=60s")
        widget = {**a_widget("w", namespace).size(3).document(), "apiVersion": f"{GROUP}/v1"}
        eventually_sync(
            lambda: api_server.kubectl("apply", "-f", "-", input=json.dumps(widget)).stdout, what="widgets are served"
        )
        ready = {"status": a_widget("w").ready().document()["status"]}
        patch = ("-n", namespace, "patch", f"widgets.{GROUP}", "w", "--subresource=status", "--type=merge", "-p")
        api_server.kubectl(*patch, json.dumps(ready))
        shown = api_server.kubectl("-n", namespace, "get", f"widgets.{GROUP}", "w", "-o", "json").stdout
        assert (json.loads(shown)["spec"]["size"], json.loads(shown)["status"]["phase"]) == (3, "Ready")
    finally:
        api_server.kubectl("delete", "crd", f"widgets.{GROUP}", "--wait=false")


async def test_a_witness_that_lost_track_gives_no_verdict(fault_proxy: FaultProxy, namespace: str) -> None:
    async def lose_track() -> None:
        async with Witness(fault_proxy.server, [f"/api/v1/namespaces/{namespace}/configmaps"]):
            (await fault_proxy.stream()).inject(expired())
            await eventually(lambda: fault_proxy.streams() == [], what="the witness gives up")

    with pytest.raises(AssertionError, match="the witness lost track"):
        await lose_track()
