"""Settings: defaults, a strict file, the environment; everything that is wrong is named at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.config import ConfigError, ControllerManagerSettings, load, show

PROCESS = "controller-manager"
PREFIX = "GPU_RUNTIME_CONTROLLER_MANAGER_"
CONFIG = Path(__file__).parents[3] / "config"


def loaded(folder: Path, text: str, **env: str) -> ControllerManagerSettings:
    path = folder / "controller-manager.yaml"
    path.write_text(text)
    return load(PROCESS, ControllerManagerSettings, path, {PREFIX + name: value for name, value in env.items()})


def test_without_a_file_the_defaults_hold() -> None:
    assert load(PROCESS, ControllerManagerSettings, None, {"PATH": "/bin"}) == ControllerManagerSettings()


def test_the_file_wins_over_defaults_and_the_environment_over_the_file(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "workers: 2\nhealth: {port: 9000}\nspecs: {g1.1: {nodeSelector: {gpu: a100}}}",
        WORKERS="3",
        LEADER_ELECTION_ENABLED="false",
        STOCK_NAMESPACES="[a, b]",
        UNITS_ACCESS_URL="http://localhost/{namespace}/{name}/",
        INSTALL_NAMESPACE="123",
    )
    assert (settings.workers, settings.health.port, settings.health.host) == (3, 9000, "127.0.0.1")
    assert settings.leaderElection.enabled is False
    assert settings.stock.namespaces == ("a", "b")
    assert settings.units.accessURL == "http://localhost/{namespace}/{name}/"
    assert settings.installNamespace == "123"
    assert settings.specs["g1.1"].nodeSelector == {"gpu": "a100"}


WRONG = {
    "an unknown key is named, with the one that was meant": (
        "worker: 2",
        {},
        ["controller-manager.yaml: worker: unknown field; did you mean workers?"],
    ),
    "an unknown key inside another": ("health: {prt: 1}", {}, ["health.prt: unknown field; did you mean port?"]),
    "a wrong type": ("workers: many", {}, ["workers: must be a whole number, not a string"]),
    "a value out of range": ("workers: 0", {}, ["workers: must be at least 1"]),
    "a key written twice": ("workers: 1\nworkers: 2", {}, ["workers is written twice"]),
    "a range that is none": (
        "network: {blockedEgressCIDRs: [10.0.0.0/33]}",
        {},
        ["network.blockedEgressCIDRs[0]: '10.0.0.0/33'"],
    ),
    "an address with a hole that nothing fills": (
        "units: {accessURL: 'http://{host}/'}",
        {},
        ["units.accessURL: may hold {scheme}, {name}, {namespace} and {port}"],
    ),
    "no mapping at all": ("- a", {}, ["must hold keys and values"]),
    "no YAML at all": ("a: [", {}, ["is not valid YAML"]),
    "a date that does not exist": ("log: 2020-13-45", {}, ["is not valid YAML: month must be in 1..12"]),
    "a key that is a number": ("1: 2", {}, ["is not valid YAML: the key 1 is not a string"]),
    "a key that is a list": ("? [a]\n: b", {}, ["is not valid YAML: the key ['a'] is not a string"]),
    "an unknown variable": ("", {"WORKER": "2"}, [f"{PREFIX}WORKER: no setting has this variable"]),
    "a wrong variable is named, not the file": (
        "workers: 2",
        {"WORKERS": "many"},
        [f"{PREFIX}WORKERS: workers: must be a whole number"],
    ),
    "a variable with a date that does not exist": (
        "",
        {"WORKERS": "2020-13-45"},
        [f"{PREFIX}WORKERS: is not a YAML value"],
    ),
    "a variable that is not YAML": ("", {"WORKERS": "["}, [f"{PREFIX}WORKERS: is not a YAML value"]),
    "everything at once": ("a: 1\nb: 2", {"WORKERS": "0"}, ["a: unknown", "b: unknown", "workers: must be at least"]),
}


@pytest.mark.parametrize(("text", "env", "want"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, env: dict[str, str], want: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text, **env)
    for words in want:
        assert words in str(error.value)


def test_a_file_whose_bytes_are_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin1.yaml"
    path.write_bytes(b"log: {level: \xff}")
    with pytest.raises(ConfigError, match=r"latin1\.yaml: is not valid YAML: 'utf-8' codec can't decode byte 0xff"):
        load(PROCESS, ControllerManagerSettings, path, {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load(PROCESS, ControllerManagerSettings, tmp_path / "nowhere.yaml", {})


@pytest.mark.parametrize("process", PROCESSES)
def test_what_is_shown_gives_the_same_settings_again(process: str, tmp_path: Path) -> None:
    settings: Struct = PROCESSES[process].load_settings(None, {})
    path = tmp_path / "shown.yaml"
    path.write_text(show(settings))
    assert PROCESSES[process].load_settings(path, {}) == settings


@pytest.mark.parametrize("process", PROCESSES)
def test_every_key_is_shown(process: str) -> None:
    settings = PROCESSES[process].load_settings(None, {})
    assert set(yaml.safe_load(show(settings))) == set(settings.__struct_fields__)


@pytest.mark.parametrize("process", PROCESSES)
def test_the_local_file_of_each_process_loads(process: str) -> None:
    PROCESSES[process].load_settings(CONFIG / "local" / f"{process}.yaml", {})


@pytest.mark.parametrize("process", [name for name, process in PROCESSES.items() if process.cluster is not None])
def test_the_cluster_file_of_each_process_loads_and_is_what_its_container_reads(process: str, tmp_path: Path) -> None:
    maps = yaml.safe_load_all((CONFIG / "manager" / "process_config.yaml").read_text())
    data = next(each["data"] for each in maps if each["metadata"]["name"] == process)
    path = tmp_path / f"{process}.yaml"
    path.write_text(data[path.name])
    settings: Any = PROCESSES[process].load_settings(path, {})
    deployments = yaml.safe_load_all((CONFIG / "manager" / "manager.yaml").read_text())
    pod = next(each["spec"]["template"]["spec"] for each in deployments if each["metadata"]["name"] == process)
    container = pod["containers"][0]
    assert container["command"] == ["gpu-runtime", process, "--config", f"/etc/gpu-runtime/{process}.yaml"]
    assert {"name": "health", "containerPort": settings.health.port} in container["ports"]
