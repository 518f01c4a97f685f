"""Objects over HTTP: what clients and controllers rely on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from kube.kubectl.kubelet import Files
from local.apiserver.conftest import Api


def configmaps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def configmap(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **fields}, "data": {"color": "blue"}}


async def test_a_stale_update_is_a_conflict_and_a_no_op_changes_nothing(api: Api, namespace: str) -> None:
    made = (await api("POST", configmaps(namespace), configmap())).body
    same = (await api("PUT", configmaps(namespace, "a"), made)).body
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    changed = await api("PUT", configmaps(namespace, "a"), {**made, "data": {"color": "red"}})
    assert changed.code == 200
    stale = await api("PUT", configmaps(namespace, "a"), {**made, "data": {"color": "green"}})
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")


@mutant("local/apiserver/writing.py", "        if same(done, stored):", "        if False:")
async def test_a_write_that_changes_nothing_keeps_the_version_and_wakes_no_watch(api: Api, namespace: str) -> None:
    made = (await api("POST", configmaps(namespace), configmap())).body
    path, version = configmaps(namespace, "a"), made["metadata"]["resourceVersion"]
    writes: tuple[tuple[str, str, Any], ...] = (
        ("PUT", "json", made),
        ("PUT", "json", configmap()),  # without a version
        ("PATCH", "merge-patch+json", {}),
        ("PATCH", "merge-patch+json", {"data": {"color": "blue"}, "metadata": {"labels": {"absent": None}}}),
        ("PATCH", "strategic-merge-patch+json", {"data": {"color": "blue"}}),
        ("PATCH", "json-patch+json", [{"op": "replace", "path": "/data/color", "value": "blue"}]),
    )
    for method, content, body in writes:
        answer = await api(method, path, body, Content_Type=f"application/{content}")
        assert (answer.code, answer.body["metadata"]["resourceVersion"]) == (200, version), (method, content)
    await api("PATCH", path, {"data": {"color": "red"}}, Content_Type="application/merge-patch+json")
    since = f"{configmaps(namespace)}?watch=true&resourceVersion={version}&fieldSelector=metadata.name=a"
    assert [event["object"]["data"]["color"] for event in await api.events(since, 1)] == ["red"]


@mutant("local/apiserver/writing.py", "        if same(done, stored):", "        if False:")
async def test_a_status_or_scale_that_changes_nothing_keeps_the_version(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    made = (await api("POST", path, {"metadata": {"name": "a"}, "spec": spec})).body
    for part, body in (("", made), ("/status", made), ("/scale", {"spec": {"replicas": 2}})):
        method, content = ("PATCH", "merge-patch+json") if part == "/scale" else ("PUT", "json")
        answer = await api(method, f"{path}/a{part}", body, Content_Type=f"application/{content}")
        assert answer.code == 200, answer.body
        assert answer.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], part


async def test_of_many_who_create_one_name_one_wins(api: Api, namespace: str) -> None:
    answers = await asyncio.gather(*(api("POST", configmaps(namespace), configmap()) for _ in range(20)))
    assert sorted(answer.code for answer in answers) == [201] + [409] * 19


async def test_of_many_who_update_one_version_one_wins(api: Api, namespace: str) -> None:
    made = (await api("POST", configmaps(namespace), configmap())).body
    bodies = [{**made, "data": {"by": str(number)}} for number in range(20)]
    answers = await asyncio.gather(*(api("PUT", configmaps(namespace, "a"), body) for body in bodies))
    assert sorted(answer.code for answer in answers) == [200] + [409] * 19


async def test_pages_agree_with_each_other_while_writes_go_on(api: Api, namespace: str) -> None:
    for name in "abcd":
        await api("POST", configmaps(namespace), configmap(name))
    path = f"{configmaps(namespace)}?labelSelector=&limit=2&fieldSelector=metadata.name!=kube-root-ca.crt"
    first = (await api("GET", path)).body
    await api("POST", configmaps(namespace), configmap("bb"))
    await api("DELETE", configmaps(namespace, "c"))
    rest = (await api("GET", f"{path}&continue={first['metadata']['continue']}")).body
    assert [item["metadata"]["name"] for item in first["items"] + rest["items"]] == ["a", "b", "c", "d"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_held_object_goes_with_its_last_finalizer(api: Api, namespace: str) -> None:
    await api("POST", configmaps(namespace), configmap(finalizers=["example.com/hold"]))
    deleted = (await api("DELETE", configmaps(namespace, "a"))).body
    assert deleted["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    await api("PATCH", configmaps(namespace, "a"), patch, Content_Type="application/merge-patch+json")
    assert (await api("GET", configmaps(namespace, "a"))).code == 404


async def test_a_delete_holds_its_preconditions(api: Api, namespace: str) -> None:
    made = (await api("POST", configmaps(namespace), configmap())).body["metadata"]
    other = {"preconditions": {"uid": "0c5b5fe4-0000-4000-8000-000000000001"}}
    assert (await api("DELETE", configmaps(namespace, "a"), other)).code == 409
    old = {"preconditions": {"resourceVersion": "1"}}
    assert (await api("DELETE", configmaps(namespace, "a"), old)).code == 409
    right = {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}}
    assert (await api("DELETE", configmaps(namespace, "a"), right)).code == 200


async def test_a_dry_run_leaves_nothing(api: Api, namespace: str) -> None:
    assert (await api("POST", f"{configmaps(namespace)}?dryRun=All", configmap())).code == 201
    assert (await api("GET", configmaps(namespace, "a"))).code == 404


async def test_server_side_apply_is_refused_with_a_word_about_what_to_do(api: Api, namespace: str) -> None:
    path = f"{configmaps(namespace, 'a')}?fieldManager=me"
    refused = await api("PATCH", path, configmap(), Content_Type="application/apply-patch+yaml")
    assert refused.code == 415
    assert "use client-side apply" in refused.body["message"]


async def test_what_needs_a_stream_is_refused_with_a_word_about_what_to_do(api: Api, namespace: str) -> None:
    refused = await api("POST", f"/api/v1/namespaces/{namespace}/pods/a/exec?command=ls")
    assert refused.code == 404
    assert "pods/exec is not served" in refused.body["message"]


NONSENSE: dict[str, tuple[str, str, bytes, str]] = {
    "no JSON": ("POST", "", b"{", "application/json"),
    "deep nesting": ("POST", "", b'{"data":' * 5000 + b"1" + b"}" * 5000, "application/json"),
    "a list": ("POST", "", b"[]", "application/json"),
    "bad metadata": ("POST", "", b'{"metadata": 5}', "application/json"),
    "bad UTF-8": ("POST", "", b'{"metadata": {"name": "\xff"}}', "application/json"),
    "another media type": ("POST", "", b"<a/>", "text/xml"),
    "broken protobuf": ("POST", "", b"k8s\x00\xff\xff\xff", "application/vnd.kubernetes.protobuf"),
    "a patch of nothing": ("PATCH", "kube-root-ca.crt", b"", "application/merge-patch+json"),
    "a patch that is a number": ("PATCH", "kube-root-ca.crt", b"5", "application/merge-patch+json"),
    "a JSON patch of nonsense": ("PATCH", "kube-root-ca.crt", b'[{"op": 5}]', "application/json-patch+json"),
    "delete options of nonsense": ("DELETE", "absent", b"[1]", "application/json"),
    "a body of four megabytes": ("POST", "", b'{"data": {"a": "' + b"x" * 4_000_000 + b'"}}', "application/json"),
}


@pytest.mark.parametrize(("method", "name", "body", "media"), NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_refused_and_never_a_traceback(
    api: Api, namespace: str, method: str, name: str, body: bytes, media: str
) -> None:
    refused = await api(method, configmaps(namespace, name), body, Content_Type=media)
    assert 400 <= refused.code < 500, refused.body
    assert refused.body["kind"] == "Status"


async def test_a_custom_kind_is_served_once_it_is_established_and_cleaned_up(api: Api, namespace: str) -> None:
    group = f"{namespace}.example.com"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await api("POST", crds, definition)).code == 201
    things = f"/apis/{group}/v1/namespaces/{namespace}/things"

    async def served() -> bool:
        return (await api("GET", things)).code == 200

    await eventually(served, what="the kind is served")
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    made = await api("POST", things, thing)
    assert (made.code, made.body["spec"]) == (201, {"n": 7})
    assert (await api("GET", f"/openapi/v3/apis/{group}/v1")).body["paths"]
    assert (await api("DELETE", f"{crds}/things.{group}")).code == 200

    async def gone() -> bool:
        return (await api("GET", f"{crds}/things.{group}")).code == 404

    await eventually(gone, what="the definition goes with its objects")
    assert (await api("GET", f"{things}/a")).code == 404


async def test_a_quota_follows_what_comes_and_goes(api: Api, namespace: str) -> None:
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await api("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await _used(api, quotas, "0")
    assert (await api("POST", pods, pod)).code == 201
    refused = await api("POST", pods, {**pod, "metadata": {"name": "b"}})
    assert refused.body["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    await api("DELETE", f"{pods}/a")
    await _used(api, quotas, "0")
    assert (await api("POST", pods, {**pod, "metadata": {"name": "b"}})).code == 201


async def _used(api: Api, quotas: str, want: str) -> None:
    async def counted() -> bool:
        status = (await api("GET", f"{quotas}/q")).body.get("status", {})
        return bool(status.get("used", {}).get("pods") == want)

    await eventually(counted, what="the quota is counted")


async def test_logs_are_read_from_the_node(api: Api, namespace: str, running: Any) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    pod = (await api("POST", pods, {"metadata": {"name": "a"}, "spec": spec})).body
    refused = await api("GET", f"{pods}/a/log")
    assert (refused.code, refused.body["message"]) == (404, 'pods "n" not found')
    assert (await api("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).code == 201
    refused = await api("GET", f"{pods}/a/log")
    assert refused.body["message"] == 'container "c" in pod "a" is waiting to start: ContainerCreating'
    output = Files(running.data / "pods" / pod["metadata"]["uid"], "c")
    output.write("2026-01-01T00:00:00Z", "one")
    output.write("2026-01-01T00:00:01Z", "two")
    assert (await api("GET", f"{pods}/a/log")).body == "one\ntwo\n"
    assert (await api("GET", f"{pods}/a/log?tailLines=1&timestamps=true")).body == "2026-01-01T00:00:01Z two\n"
    assert (await api("GET", f"{pods}/a/log?sinceTime=2026-01-01T02:00:01%2B02:00")).body == "two\n"
    assert (await api("GET", f"{pods}/a/log?sinceSeconds=1")).body == ""
    assert (await api("GET", f"{pods}/a/log?sinceSeconds=999999999999999999")).body == "one\ntwo\n"
    async with asyncio.timeout(60), api.session.get(f"{pods}/a/log?follow") as follow:
        assert await follow.content.readline() == b"one\n"
        assert await follow.content.readline() == b"two\n"
        output.write("2026-01-01T00:00:02Z", "three words")
        assert await follow.content.readline() == b"three words\n"
        output.end()
        assert await follow.content.read() == b""


async def test_a_service_that_nothing_serves_is_kept_and_given_nothing(api: Api, namespace: str) -> None:
    services = f"/api/v1/namespaces/{namespace}/services"
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    made = await api("POST", services, {"metadata": {"name": "outside"}, "spec": spec})
    assert made.code == 201
    assert "clusterIP" not in made.body["spec"]
    assert "nodePort" not in made.body["spec"]["ports"][0]
    patch = {"Content_Type": "application/merge-patch+json"}
    served = await api("PATCH", f"{services}/outside", {"spec": {"type": "ClusterIP"}}, **patch)
    assert (served.code, served.body["spec"]["clusterIP"][:6]) == (200, "10.96.")
