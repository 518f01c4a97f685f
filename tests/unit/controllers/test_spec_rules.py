"""What a hand-written spec may say that its schema lets pass and that cannot run."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.builders import a_unit
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnitSpec
from gpu_runtime.api.v1alpha1.rules import access_errors, mount_errors, primary_port, template_errors
from gpu_runtime.controllers.pod_size import PodSize
from gpu_runtime.controllers.readiness import in_words


def a_spec(**fields: Any) -> GPUUnitSpec:
    return a_unit("u").spec(**fields).object().spec


HTTP = {"name": "http", "port": 8080}
TEMPLATES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "two ports": ({"ports": [HTTP, {"name": "api", "port": 8000}]}, []),
    "a port number twice": (
        {"ports": [HTTP, {"name": "api", "port": 8080}]},
        ["spec.template.ports[1].port: duplicates template.ports[0]: each number may occur once"],
    ),
    "a variable with two values": (
        {"envs": [{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        ["spec.template.envs[0].valueFrom: cannot stand beside value: set one of them"],
    ),
    "a probe that does nothing": (
        {"readinessProbe": {}},
        ["spec.template.readinessProbe: must have exactly one of httpGet, tcpSocket and exec, not 0"],
    ),
    "a probe that does two things": (
        {"ports": [HTTP], "readinessProbe": {"httpGet": {"port": "http"}, "exec": {"command": ["x"]}}},
        ["spec.template.readinessProbe: must have exactly one of httpGet, tcpSocket and exec, not 2"],
    ),
    "a probe of a port that is not there": (
        {"readinessProbe": {"tcpSocket": {"port": "grpc"}}},
        ["spec.template.readinessProbe.tcpSocket.port: names no port of the template"],
    ),
    "a probe of a number": ({"readinessProbe": {"tcpSocket": {"port": 9000}}}, []),
}


@pytest.mark.parametrize(("template", "want"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_with(template: dict[str, Any], want: list[str]) -> None:
    assert in_words(template_errors(a_spec(template=template).template)) == want


MOUNTS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "two places": ([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}], []),
    "one place twice": (
        [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/a/"}],
        ["spec.storageMounts[1].mountPath: duplicates storageMounts[0]: each path may occur once"],
    ),
    "the platform's place": (
        [{"name": "a", "mountPath": "/dev/shm/x"}],
        ["spec.storageMounts[0].mountPath: /dev/shm/x is the platform's own"],
    ),
}


@pytest.mark.parametrize(("mounts", "want"), MOUNTS.values(), ids=MOUNTS)
def test_mounts_in(mounts: list[dict[str, Any]], want: list[str]) -> None:
    assert in_words(mount_errors(a_spec(storageMounts=mounts).storageMounts)) == want


def test_users_reach_the_port_that_is_named_or_else_the_first() -> None:
    ports = {"ports": [HTTP, {"name": "api", "port": 8000}]}
    assert reached(a_spec()) is None
    assert reached(a_spec(template=ports)) == 8080
    assert reached(a_spec(template=ports, access={"primaryPort": "api"})) == 8000
    wrong = a_spec(template=ports, access={"primaryPort": "grpc"})
    assert in_words(access_errors(wrong.access, wrong.template)) == [
        "spec.access.primaryPort: names no port: the template has http, api"
    ]


def reached(spec: GPUUnitSpec) -> int | None:
    port = primary_port(spec.access, spec.template.ports)
    return port.port if port else None


@pytest.mark.parametrize("field", ["memory", "cpu"])
@pytest.mark.parametrize("text", ["not-a-quantity", "-1", "1GiB"])
def test_an_amount_that_is_none_is_named_with_its_field(field: str, text: str) -> None:
    given: dict[str, Any] = {"gpu": 0, "memory": None, "cpu": None, field: text}
    with pytest.raises(ValueError, match=f"spec.{field}: '{text}'"):
        PodSize.parse(**given)


def test_a_pod_asks_for_what_it_may_use_in_canonical_form() -> None:
    resources = PodSize.parse(gpu=2, memory="1024Mi", cpu="1.5").resources
    assert resources.limits == resources.requests == {"memory": "1Gi", "cpu": "1500m", "nvidia.com/gpu": "2"}
    assert PodSize.parse(gpu=0, memory=None).resources.limits == {}
