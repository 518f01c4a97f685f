"""Our CRDs on the real API server, seen through kubectl."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from equipment.servers import ApiServer
from gpu_runtime.api.kind import Kind
from gpu_runtime.api.v1alpha1.crds import GPU_UNIT, KINDS, OPERATION, STOCK_POOL
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.samples import SAMPLES
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import BadRequest
from kube.api.objects import Objects
from kube.api.paths import CONFIG
from unit.api.complete import COMPLETE
from unit.api.schema_cases import as_json


def every_kind(test: Any) -> Any:
    return pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)(test)


def minimal(kind: Kind[Any], **spec: object) -> dict[str, Any]:
    needed: dict[str, dict[str, object]] = {
        "StockPool": {"specName": "g1.1", "replicas": 1},
        "GPUUnit": {"specName": "g1.1"},
        "GPUStorage": {"size": "1Gi"},
        "GPUFunction": {"unit": {"specName": "g1.1", "image": "python:3.12"}},
        "Operation": {"type": "CreateGPUUnit", "operationID": "a", "requestHash": "0" * 64},
    }
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "minimal"},
        "spec": needed[kind.kind] | spec,
    }


@every_kind
def test_a_definition_is_established_without_a_complaint(crds: ApiServer, kind: Kind[Any]) -> None:
    shown = json.loads(crds.kubectl("get", "crd", kind.qualified_name, "-o", "json").stdout)
    conditions = {condition["type"]: condition["status"] for condition in shown["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}  # NonStructuralSchema would stand here
    assert shown["status"]["acceptedNames"]["shortNames"] == list(kind.short_names)


def test_explain_teaches_what_a_template_is(crds: ApiServer) -> None:
    shown = crds.kubectl("explain", "gpuunit.spec.template").stdout
    for field in ("args", "command", "envs", "ports", "readinessProbe", "terminationGracePeriodSeconds"):
        assert f"  {field}\t<" in shown
    assert "With at least one, a Service makes them" in shown
    deep = crds.kubectl("explain", "gu.spec.template.envs.valueFrom.secretKeyRef.key").stdout
    assert "The entry of the Secret to read." in deep


def test_short_names_and_the_category_list_our_objects(crds: ApiServer, namespace: str) -> None:
    crds.kubectl("apply", "-n", namespace, "-k", str(CONFIG / "samples"))
    tables = crds.kubectl("get", "sp,gu,gs", "-n", namespace).stdout.split("\n\n")
    assert [table.splitlines()[0].split() for table in tables] == [
        ["NAME", "SPEC", "DESIRED", "AVAILABLE", "PHASE", "AGE"],
        ["NAME", "SPEC", "PHASE", "ACCESS", "AGE"],
        ["NAME", "SIZE", "CAPACITY", "PHASE", "AGE"],
    ]
    everywhere = crds.kubectl("get", "gpu", "-A").stdout
    for kind in KINDS:
        name = f"{kind.singular}.runtime.lokiwager.io/{SAMPLES[kind.singular].metadata.name}"
        assert any(line.split()[:2] == [namespace, name] for line in everywhere.splitlines())


@every_kind
async def test_a_complete_object_is_stored_as_it_was_sent(client: Client, namespace: str, kind: Kind[Any]) -> None:
    objects = Objects(client, kind, namespace)
    sent = as_json(COMPLETE[kind.kind])
    stored = await objects.create(sent, fieldValidation="Strict")
    if kind.status_subresource:
        assert "status" not in stored
        stored = await objects.patch("complete", {"status": sent["status"]}, "/status", fieldValidation="Strict")
    assert (stored["spec"], stored["status"]) == (sent["spec"], sent["status"])


@every_kind
async def test_the_server_fills_in_the_defaults_of_the_types(client: Client, namespace: str, kind: Kind[Any]) -> None:
    sent = minimal(kind)
    stored = await Objects(client, kind, namespace).create(sent)
    assert msgspec.convert(stored, kind.type).spec == msgspec.convert(sent, kind.type).spec


@pytest.mark.parametrize("kind", [STOCK_POOL, GPU_UNIT], ids=lambda kind: kind.kind)
async def test_an_amount_that_is_none_reaches_the_controller(client: Client, namespace: str, kind: Kind[Any]) -> None:
    stored = await Objects(client, kind, namespace).create(minimal(kind, memory="not-a-quantity"))
    assert stored["spec"]["memory"] == "not-a-quantity"


async def test_a_unit_that_was_read_can_be_written_back(client: Client, namespace: str) -> None:
    """Leaving out what equals its default must not look like a change of a protected field."""
    objects = Objects(client, GPU_UNIT, namespace)
    stored = await objects.create(minimal(GPU_UNIT, gpu=0))
    unit = msgspec.convert(stored, GPUUnit)
    document = as_json(unit) | {"apiVersion": GPU_UNIT.api_version}
    path = f"{objects.path}/minimal"
    answer = json.loads(await client.request("PUT", path, subject="replace", body=document))
    assert answer["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


async def test_an_unknown_field_is_refused_by_name_when_asked_to(client: Client, namespace: str) -> None:
    objects = Objects(client, GPU_UNIT, namespace)
    document = minimal(GPU_UNIT, template={"ports": [{"name": "http", "port": 80, "prot": "TCP"}]})
    with pytest.raises(BadRequest, match=r'unknown field "spec\.template\.ports\[0\]\.prot"'):
        await objects.create(document, fieldValidation="Strict")


async def test_null_means_absent_as_in_our_own_validation(client: Client, namespace: str) -> None:
    document = minimal(GPU_UNIT, image=None, template={"envs": None}, gpu=None)
    stored = await Objects(client, GPU_UNIT, namespace).create(document)
    assert stored["spec"] == {"specName": "g1.1", "gpu": 0, "template": {}}


def test_a_pool_is_scaled_with_kubectl(crds: ApiServer, namespace: str) -> None:
    crds.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(minimal(STOCK_POOL)))
    status = {"status": {"replicas": 1, "available": 1, "selector": "runtime.lokiwager.io/pool=minimal"}}
    pool = ("-n", namespace, "stockpool", "minimal")
    crds.kubectl("patch", *pool, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    crds.kubectl("scale", *pool, "--current-replicas=1", "--replicas=3")

    shown = json.loads(crds.kubectl("get", *pool, "-o", "json").stdout)
    assert (shown["spec"]["replicas"], shown["status"]["available"]) == (3, 1)
    scale = json.loads(crds.kubectl("get", *pool, "--subresource=scale", "-o", "json").stdout)
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 1, "selector": "runtime.lokiwager.io/pool=minimal"}


def test_a_status_write_leaves_the_spec_alone_and_shows_zeros(crds: ApiServer, namespace: str) -> None:
    crds.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(minimal(STOCK_POOL)))
    change = {"spec": {"replicas": 9}, "status": {"phase": "Progressing"}}
    pool = ("-n", namespace, "stockpool", "minimal")
    crds.kubectl("patch", *pool, "--subresource=status", "--type=merge", "-p", json.dumps(change))
    row = crds.kubectl("get", *pool, "--no-headers").stdout.split()
    assert row[:5] == ["minimal", "g1.1", "1", "0", "Progressing"]


async def test_one_create_and_one_write_carry_an_operation_through_its_commit(client: Client, namespace: str) -> None:
    """The choice stands in the record from the first moment, and the commit moves phase and request together."""
    objects = Objects(client, OPERATION, namespace)
    choice = {"namespace": "runtime-stock", "name": "s1", "uid": "u1"}
    sent = minimal(OPERATION, request={"specName": "g1.1", "nested": {"kept": [1, None, {"as": "sent"}]}})
    stored = await objects.create(sent | {"status": {"decisions": {"stock": choice}}})
    assert stored["status"] == {"phase": "Pending", "decisions": {"stock": choice}}
    assert stored["spec"]["request"] == sent["spec"]["request"]

    commit = {"spec": {"request": None}, "status": {"phase": "Succeeded"}}
    version = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}}
    committed = await objects.patch("minimal", commit | version)
    assert committed["status"] == {"phase": "Succeeded", "decisions": {"stock": choice}}
    assert "request" not in committed["spec"]
