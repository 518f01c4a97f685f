"""What a hand-written spec may say that its schema lets pass and that cannot run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from equipment.builders import a_unit
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorageSpec
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnitSpec, StorageMount
from gpu_runtime.api.v1alpha1.rules import access_errors, mount_errors, primary_port, storage_errors, template_errors
from gpu_runtime.api.v1alpha1.serverless import credentials_secret
from gpu_runtime.api.v1alpha1.worker_pod import serverless_errors
from gpu_runtime.controllers.pod_size import PodSize
from gpu_runtime.controllers.readiness import in_words


def a_spec(**fields: Any) -> GPUUnitSpec:
    return a_unit("u").spec(**fields).object().spec


HTTP = {"name": "http", "port": 8080}
FOREIGN_SECRET = (
    "template.envs[0].valueFrom.secretKeyRef.name: names a Secret of the platform: programs of users must not read it"
)
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
    "a variable with the platform's own credentials": (
        {"envs": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": credentials_secret("echo"), "key": "k"}}}]},
        ["spec." + FOREIGN_SECRET],
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
    "one storage twice": (
        [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}],
        ["spec.storageMounts[1].name: duplicates storageMounts[0]: each storage may be mounted once"],
    ),
    "one inside the other": (
        [{"name": "a", "mountPath": "/data/a"}, {"name": "b", "mountPath": "/data"}],
        ["spec.storageMounts[0].mountPath: /data/a is inside /data of storageMounts[1]: mounts must not be nested"],
    ),
    "one beside the other": ([{"name": "a", "mountPath": "/data"}, {"name": "b", "mountPath": "/data-b"}], []),
    "one place in two spellings": (
        [{"name": "a", "mountPath": "/a/b"}, {"name": "b", "mountPath": "//a/./b/"}],
        ["spec.storageMounts[1].mountPath: duplicates storageMounts[0]: each path may occur once"],
    ),
    "a folder below /etc": ([{"name": "a", "mountPath": "/etc/app"}], []),
    "a folder that only begins like a reserved one": ([{"name": "a", "mountPath": "/devices"}], []),
}


@pytest.mark.parametrize(("mounts", "want"), MOUNTS.values(), ids=MOUNTS)
def test_mounts_in(mounts: list[dict[str, Any]], want: list[str]) -> None:
    assert in_words(mount_errors(a_spec(storageMounts=mounts).storageMounts)) == want


@pytest.mark.parametrize(
    "path", ["/proc", "/proc/1", "/dev", "/dev/shm", "/sys/", "/sys/fs", "/etc", "//etc/.", "/./dev"]
)
def test_a_storage_is_not_mounted_over_the_platforms_own(path: str) -> None:
    (error,) = mount_errors([StorageMount(name="a", mountPath=path)])
    assert error.message.endswith("is the platform's own")


@pytest.mark.parametrize(
    ("path", "want"),
    [("data", "absolute"), ("", "absolute"), ("/", "'/'"), ("///", "'/'"), ("/a/../etc", "'..'"), ("/..", "'..'")],
)
def test_a_mount_path_is_absolute_and_leads_nowhere_else(path: str, want: str) -> None:
    (error,) = mount_errors([StorageMount(name="a", mountPath=path)])
    assert want in error.message


IMAGE = {"fromImage": "alpine", "command": ["wget"]}
STORAGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a size": ({"size": "20Gi"}, []),
    "a size of nothing": ({"size": "0"}, ["spec.size: must be more than 0, such as 20Gi"]),
    "a size below nothing": ({"size": "-1Gi"}, ["spec.size: '-1Gi' is negative: write an amount of 0 or more"]),
    "a size in milli-bytes": (
        {"size": "500m"},
        ["spec.size: 500m is not a whole number of bytes: write a size such as 500Mi or 20Gi"],
    ),
    "a size that is none": (
        {"size": "big"},
        [
            "spec.size: 'big' is not a quantity: write a number with an optional suffix, as in 500m, 1.5, 16Gi or 1e3",
        ],
    ),
    "an image that fills it": ({"prepare": IMAGE}, []),
    "an image with arguments alone": ({"prepare": {"fromImage": "alpine", "args": ["x"]}}, []),
    "another storage that fills it": ({"prepare": {"fromStorageName": "b"}}, []),
    "two sources": (
        {"prepare": {**IMAGE, "fromStorageName": "b"}},
        ["spec.prepare: must have fromImage or fromStorageName, not both"],
    ),
    "no source": ({"prepare": {}}, ["spec.prepare: must have fromImage or fromStorageName"]),
    "a command without an image": (
        {"prepare": {"command": ["wget"]}},
        ["spec.prepare: command and args need fromImage"],
    ),
    "a command for a copy": (
        {"prepare": {"fromStorageName": "b", "args": ["x"]}},
        ["spec.prepare: command and args need fromImage: a copy of another storage runs no command"],
    ),
    "an image without a command": (
        {"prepare": {"fromImage": "alpine"}},
        ["spec.prepare: fromImage needs command or args: what should it run to fill the volume?"],
    ),
    "itself as the source": (
        {"prepare": {"fromStorageName": "a"}},
        ["spec.prepare.fromStorageName: names this storage itself: name another one"],
    ),
}


@pytest.mark.parametrize(("spec", "want"), STORAGES.values(), ids=STORAGES)
def test_a_storage_with(spec: dict[str, Any], want: list[str]) -> None:
    spec = {"size": "1Gi", **spec}
    assert in_words(storage_errors(msgspec.convert(spec, GPUStorageSpec), "a")) == want


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


WORKER = {"enabled": True, "requestID": "echo"}
SOURCE = {"configMapName": "fn-echo-1"}
WORKERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no part in serverless": ({"serverless": {}}, []),
    "a block that is switched off": ({"serverless": {"requestID": "echo", "handler": SOURCE}}, []),
    "an image": ({"serverless": WORKER, "image": "a:1"}, []),
    "a handler": ({"serverless": {**WORKER, "handler": SOURCE}}, []),
    "a handler and variables": (
        {"serverless": {**WORKER, "handler": SOURCE}, "template": {"envs": [{"name": "A", "value": "1"}]}},
        [],
    ),
    "no function": (
        {"serverless": {"enabled": True}, "image": "a:1"},
        ["spec.serverless.requestID: is required when enabled: the name of the function"],
    ),
    "nothing to run": (
        {"serverless": WORKER},
        ["spec.image: is required for a worker without handler: which image runs the framework?"],
    ),
    "a handler and an image": (
        {"serverless": {**WORKER, "handler": SOURCE}, "image": "a:1"},
        ["spec.image: cannot stand beside serverless.handler, which runs on the platform's own image"],
    ),
    "a handler and a command": (
        {"serverless": {**WORKER, "handler": SOURCE}, "template": {"args": ["serve"]}},
        ["spec.template: command and args cannot stand beside serverless.handler, which is what runs"],
    ),
    "the worker's port": (
        {"serverless": WORKER, "image": "a:1", "template": {"ports": [HTTP, {"name": "x", "port": 20881}]}},
        ["spec.template.ports[1].port: 20881 is the platform's own in a worker"],
    ),
    "a storage over the sockets": (
        {"serverless": WORKER, "image": "a:1", "storageMounts": [{"name": "a", "mountPath": "/tmp/"}]},
        ["spec.storageMounts[0].mountPath: /tmp/serverless-framework is the platform's own in a worker"],
    ),
    "a storage among the sockets": (
        {
            "serverless": WORKER,
            "image": "a:1",
            "storageMounts": [{"name": "a", "mountPath": "/tmp//serverless-framework/x"}],
        },
        ["spec.storageMounts[0].mountPath: /tmp/serverless-framework is the platform's own in a worker"],
    ),
    "a storage beside the sockets": (
        {"serverless": WORKER, "image": "a:1", "storageMounts": [{"name": "a", "mountPath": "/tmp/other"}]},
        [],
    ),
    "a storage over the credentials": (
        {"serverless": WORKER, "image": "a:1", "storageMounts": [{"name": "a", "mountPath": "/etc/gpu-runtime"}]},
        ["spec.storageMounts[0].mountPath: /etc/gpu-runtime is the platform's own in a worker"],
    ),
}


@pytest.mark.parametrize(("fields", "want"), WORKERS.values(), ids=WORKERS)
def test_a_worker_with(fields: dict[str, Any], want: list[str]) -> None:
    spec = msgspec.convert({"specName": "g1.1", **fields}, GPUUnitSpec)
    found = serverless_errors(spec.serverless, spec.image, spec.template, spec.storageMounts)
    assert in_words(found) == want
