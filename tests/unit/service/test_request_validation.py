"""Requests: every error at once, each with its field."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnitSpec
from gpu_runtime.rest.errors import InvalidRequest
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUUnit, UpdateGPUUnit
from gpu_runtime.service.merge_patch import merge_patch
from gpu_runtime.service.units.units import changed_spec

UNIT: dict[str, Any] = {"operationID": "a", "name": "n", "specName": "g", "image": "i"}
PORTS = [{"name": "http", "port": 80}]


def errors(sent: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        parse(CreateGPUUnit, sent)
    return {detail.field: detail.message for detail in refused.value.details}


def test_schema_and_meaning_are_judged_together() -> None:
    sent = {
        **UNIT,
        "image": "",
        "template": {"ports": [*PORTS, {"name": "b", "port": 80}]},
        "access": {"primaryPort": "x"},
    }
    assert errors(sent).keys() == {"image", "template.ports[1].port", "access.primaryPort"}


@pytest.mark.parametrize(
    ("probe", "field"),
    [
        ({}, "template.readinessProbe"),
        ({"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}, "template.readinessProbe"),
        ({"httpGet": {"port": "grpc"}}, "template.readinessProbe.httpGet.port"),
    ],
)
def test_a_probe_has_one_action_on_a_port_that_exists(probe: dict[str, Any], field: str) -> None:
    assert errors({**UNIT, "template": {"ports": PORTS, "readinessProbe": probe}}).keys() == {field}


@mutant("rest/request_validation.py", "or any(error.field.startswith(name) for error in found)", "")
def test_a_part_of_the_wrong_shape_is_judged_by_its_shape_alone() -> None:
    assert errors({**UNIT, "template": {"ports": "http"}, "access": {"primaryPort": 80}}).keys() == {
        "template.ports",
        "access.primaryPort",
    }


@mutant("rest/request_validation.py", '("template" not in sent and not partial)', '"template" not in sent')
def test_an_update_of_the_access_alone_is_not_compared_with_a_template_that_it_does_not_name() -> None:
    access = {"access": {"primaryPort": "http"}}
    assert parse(UpdateGPUUnit, access, partial=True).template is UNSET
    assert errors({**UNIT, **access}).keys() == {"access.primaryPort"}


def test_a_variable_has_one_value() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    sent = {**UNIT, "template": {"envs": [{"name": "A", "value": "x", "valueFrom": source}]}}
    assert errors(sent).keys() == {"template.envs[0].valueFrom"}


def test_null_is_absent_in_a_create_and_clears_in_an_update() -> None:
    assert parse(CreateGPUUnit, {**UNIT, "template": None, "access": None, "namespace": None}).namespace is None
    change = parse(UpdateGPUUnit, {"template": None}, partial=True)
    assert (change.template, change.access, change.image) == (None, UNSET, UNSET)


def test_an_update_replaces_parts_whole_and_keeps_the_rest() -> None:
    before = parse(
        CreateGPUUnit, {**UNIT, "template": {"args": ["a"], "ports": PORTS}, "access": {"primaryPort": "http"}}
    )
    spec = GPUUnitSpec(specName="g", memory="1Gi", gpu=1, image="i", template=before.template, access=before.access)
    change = parse(UpdateGPUUnit, {"template": {"ports": PORTS}, "image": "j"}, partial=True)
    after = changed_spec(spec, change)
    assert (after.memory, after.gpu, after.access) == ("1Gi", 1, spec.access)
    assert merge_patch(spec, after) == {
        "image": "j",
        "template": {"args": None, "ports": [{"name": "http", "port": 80}]},
    }
    assert merge_patch(spec, spec) == {}
