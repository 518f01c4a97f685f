"""What one reconcile of a serverless worker does, and what the worker's container and the user's may touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from equipment.builders import a_stock_unit, a_unit
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.serverless import credentials_secret
from gpu_runtime.config import ConfigError, ControllerManagerSettings, WorkerSettings, load
from gpu_runtime.config.controller_manager import ServerlessSettings
from gpu_runtime.controllers.child_kinds.workloads import Deployment
from gpu_runtime.controllers.gpuunit.resources.deployment import deployment, pod_size
from gpu_runtime.controllers.labels import REVISION
from gpu_runtime.kube import Terminal
from unit.controllers.table import SETTINGS, Row, World, available, check, children_of

BLOCK = {"enabled": True, "requestID": "echo"}
UNIT = a_unit("echo-0").with_uid("unit-uid").at_generation(1).image("framework:1")
WORKER = UNIT.spec(serverless=BLOCK)
HANDLER = a_unit("echo-0").with_uid("unit-uid").at_generation(1)
HANDLER = HANDLER.spec(image=None, serverless={**BLOCK, "handler": {"configMapName": "fn-echo-1"}})
MADE = children_of(WORKER, GPUUnit)
POLICY = MADE["NetworkPolicy"]
DEPLOYMENT = MADE["Deployment"].with_uid("deployment-uid").at_generation(1).annotated({REVISION: "1"})
PATHS = {
    "socketPath": "/tmp/serverless-framework/framework.sock",
    "invokePath": "/invoke",
    "healthPath": "/healthz",
}
WITHOUT_BROKER = ControllerManagerSettings()

ROWS: dict[str, Row] = {
    "a new worker gets its children": Row(
        [WORKER], ["create NetworkPolicy echo-0", "create Deployment echo-0"], again=2.0
    ),
    "a worker whose pod starts is Pending": Row(
        [WORKER, DEPLOYMENT, POLICY],
        ["status GPUUnit echo-0"],
        *("Progressing", "UnitProgressing"),
        status={"serverless": {"phase": "Pending", **PATHS}},
    ),
    "a worker whose pod is ready takes invocations": Row(
        [WORKER, available(DEPLOYMENT), POLICY],
        ["status GPUUnit echo-0"],
        *("Ready", "UnitReady"),
        status={"serverless": {"phase": "Ready", **PATHS}},
    ),
    "a worker without its function is Failed": Row(
        [UNIT.spec(serverless={"enabled": True})],
        ["status GPUUnit echo-0"],
        *("Failed", "ServerlessConfigInvalid", "spec.serverless.requestID: is required when enabled"),
        status={"serverless": {"phase": "Failed", **PATHS}},
        events=["Warning ServerlessConfigInvalid"],
        raises=Terminal,
    ),
    "a worker on a platform without broker is Failed, with the setting that is missing": Row(
        [WORKER],
        ["status GPUUnit echo-0"],
        *("Failed", "ServerlessConfigInvalid", "the controller-manager has no setting serverless.brokerURL"),
        status={"serverless": {"phase": "Failed", **PATHS}},
        events=["Warning ServerlessConfigInvalid"],
        raises=Terminal,
        settings=WITHOUT_BROKER,
    ),
    "stock cannot be a worker": Row(
        [a_stock_unit("stock-1").with_uid("stock-uid").at_generation(1).spec(serverless=BLOCK)],
        ["status GPUUnit stock-1"],
        *("Failed", "ServerlessConfigInvalid", "spec.serverless: a stock unit only reserves resources"),
        events=["Warning ServerlessConfigInvalid"],
        raises=Terminal,
    ),
    "a block that is switched off makes no worker": Row(
        [
            UNIT.spec(serverless={"enabled": False, "requestID": "echo"}),
            available(children_of(UNIT, GPUUnit)["Deployment"].with_uid("deployment-uid").at_generation(1)),
            children_of(UNIT, GPUUnit)["NetworkPolicy"],
        ],
        ["status GPUUnit echo-0"],
        *("Ready", "UnitReady"),
        status={"serverless": {"phase": "Disabled"}},
        settings=WITHOUT_BROKER,
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@mutant("controllers/gpuunit/reconcile.py", "            self._check_worker(unit)\n", "            pass\n")
@mutant("controllers/gpuunit/reconcile.py", "if not self.settings.serverless.brokerURL:", "if False:")
async def test_reconcile(row: Row) -> None:
    await check("gpuunit", "GPUUnit", row)


async def test_the_condition_of_a_worker_says_whether_it_takes_invocations() -> None:
    conditions = {}
    for name, have in {"starts": (WORKER, DEPLOYMENT, POLICY), "runs": (WORKER, available(DEPLOYMENT), POLICY)}.items():
        world = World(row := Row(have))
        await world.reconcile("gpuunit", row.key)
        found = world.api.find("GPUUnit", "echo-0")
        assert found is not None
        condition = {each["type"]: each for each in found["status"]["conditions"]}["ServerlessReady"]
        conditions[name] = (condition["status"], condition["reason"], condition["message"])
    assert conditions == {
        "starts": ("False", "UnitServerlessPending", "its pod is being created"),
        "runs": ("True", "UnitServerlessReady", "takes invocations of echo"),
    }


async def test_a_unit_that_is_no_worker_any_more_says_nothing_of_it() -> None:
    status = {"phase": "Ready", **PATHS}
    was = UNIT.ready("n1").status(serverless=status).condition("ServerlessReady", "True", "UnitServerlessReady", "")
    plain = children_of(UNIT, GPUUnit)
    world = World(row := Row([was, available(plain["Deployment"].at_generation(1)), plain["NetworkPolicy"]]))
    await world.reconcile("gpuunit", row.key)
    found = world.api.find("GPUUnit", "echo-0")
    assert found is not None
    assert "serverless" not in found["status"]
    assert [each["type"] for each in found["status"]["conditions"]] == ["Ready"]


def pod_of(unit: Any, settings: ControllerManagerSettings = SETTINGS) -> dict[str, Any]:
    made = unit.into(GPUUnit)
    built: Deployment = deployment(made, pod_size(made), settings, None)
    document: dict[str, Any] = msgspec.to_builtins(built.spec.template)
    return document["spec"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("unit", [WORKER, HANDLER], ids=["image", "handler"])
@mutant(
    "controllers/gpuunit/resources/serverless.py",
    "ours.append(pod.VolumeMount(name=CREDENTIALS, mountPath=CREDENTIALS_FOLDER, readOnly=True))",
    "ours.append(pod.VolumeMount(name=CREDENTIALS, mountPath=CREDENTIALS_FOLDER, readOnly=True)); mounts = ours",
)
def test_only_the_workers_container_mounts_the_credentials(unit: Any) -> None:
    pod = pod_of(unit)
    volumes = {each["secret"]["secretName"]: each["name"] for each in pod["volumes"] if "secret" in each}
    assert list(volumes) == [credentials_secret("echo")]
    mounting = [
        container["name"]
        for container in pod["containers"]
        if {mount["name"] for mount in container["volumeMounts"]} & set(volumes.values())
    ]
    assert mounting == ["serverless-worker"]
    user, worker = pod["containers"]
    assert "creds" not in str(user)
    assert not {each["name"] for each in user["env"]} & {each["name"] for each in worker["env"]}
    assert not pod.get("shareProcessNamespace")


@pytest.mark.parametrize("unit", [WORKER, HANDLER], ids=["image", "handler"])
def test_the_users_container_cannot_listen_to_the_network_of_the_worker(unit: Any) -> None:
    dropped = pod_of(unit)["containers"][0]["securityContext"]["capabilities"]["drop"]
    assert {"ALL", "NET_RAW"} & set(dropped)


def test_a_worker_takes_nothing_of_what_its_unit_reserved() -> None:
    sized = UNIT.spec(cpu="2", memory="1Gi", gpu=1)
    plain, worker = pod_of(sized), pod_of(sized.spec(serverless=BLOCK))
    assert worker["containers"][0]["resources"] == plain["containers"][0]["resources"]
    assert worker["containers"][1]["resources"]["requests"] == {"cpu": "0", "memory": "0"}


def test_a_worker_without_command_runs_what_its_image_runs() -> None:
    assert "command" in pod_of(UNIT)["containers"][0], "any other unit runs a placeholder"
    assert "command" not in pod_of(WORKER)["containers"][0]


@pytest.mark.parametrize("unit", [WORKER, HANDLER], ids=["image", "handler"])
def test_the_worker_understands_every_variable_of_its_container(unit: Any) -> None:
    worker = pod_of(unit.in_namespace("team-a"))["containers"][1]
    environment = {each["name"]: each["value"] for each in worker["env"]}
    settings = load("worker", WorkerSettings, None, environment)
    assert (settings.namespace, settings.function, settings.name) == ("team-a", "echo", "echo-0")
    assert settings.nats.servers == ["nats://nats.test:4222"]
    mounted = {mount["mountPath"] for mount in worker["volumeMounts"]}
    assert settings.nats.credentialsFile is not None
    assert str(Path(settings.nats.credentialsFile).parent) in mounted
    assert str(Path(settings.framework.socketPath).parent) in mounted
    assert settings.graceSeconds == 60


def test_a_pod_without_credentials_names_no_secret() -> None:
    open_broker = ControllerManagerSettings(
        serverless=ServerlessSettings(brokerURL="nats://nats.test", brokerCredentials=False)
    )
    assert "secret" not in str(pod_of(WORKER, open_broker)).lower()


@pytest.mark.parametrize("url", ["http://nats:4222", "nats.example.com:4222", "nats://", "nats://me:word@nats", "a,b"])
def test_an_address_that_no_worker_can_use_is_refused(url: str) -> None:
    variable = "GPU_RUNTIME_CONTROLLER_MANAGER_SERVERLESS_BROKER_URL"
    with pytest.raises(ConfigError, match=variable):
        load("controller-manager", ControllerManagerSettings, None, {variable: url})
