from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from equipment.mutation import mutant
from gpu_runtime.cmd.processes import CONTROLLER_MANAGER, PROCESSES, PROXY, RUNTIME_API
from gpu_runtime.cmd.up import run
from gpu_runtime.cmd.up import settings as module
from gpu_runtime.cmd.up.layout import Layout, Ports
from gpu_runtime.cmd.up.run import Options, plan
from gpu_runtime.cmd.up.settings import merged
from gpu_runtime.errors import ConfigError
from gpu_runtime.supervisor.folder import Folder
from realkube.process import free_ports

PORTS = Ports(
    kubernetes=9443,
    http={**dict.fromkeys(PROCESSES, 9100), "runtime-api": 9000, "proxy": 9010},
    health={**dict.fromkeys(PROCESSES, 9200), "controller-manager": 9001, "runtime-api": 9002, "proxy": 9003},
)
COMMITTED = Path(__file__).parents[3] / "config" / "local"


def write_settings(folder: Folder, given: Path | None, *, own_cluster: bool = False) -> dict[str, Path]:
    return module.write_settings(folder, PROCESSES.values(), given, PORTS, own_cluster=own_cluster)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "up")
    folder.make()
    return folder


def test_each_process_gets_its_ports_and_units_are_reached_through_the_proxy(folder: Folder) -> None:
    files = write_settings(folder, None)
    manager = CONTROLLER_MANAGER.load_settings(files["controller-manager"], {})
    assert manager.health.port == 9001
    assert manager.units.accessURL == "http://127.0.0.1:9010/units/{namespace}/{name}/"
    api = RUNTIME_API.load_settings(files["runtime-api"], {})
    assert (api.httpAddr, api.health.port) == ("127.0.0.1:9000", 9002)
    proxy = PROXY.load_settings(files["proxy"], {})
    assert (proxy.httpAddr, proxy.health.port) == ("127.0.0.1:9010", 9003)


def test_the_settings_of_a_person_are_kept_beside_them(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "controller-manager.yaml").write_text("workers: 3\nunits:\n  terminationGracePeriodSeconds: 7\n")
    files = write_settings(folder, tmp_path)
    manager = CONTROLLER_MANAGER.load_settings(files["controller-manager"], {})
    assert manager.workers == 3
    assert manager.units.terminationGracePeriodSeconds == 7
    assert "9010" in manager.units.accessURL


def test_a_setting_that_is_written_twice_is_said_before_anything_starts(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "runtime-api.yaml").write_text("drainSeconds: 3\ndrainSeconds: 4\n")
    with pytest.raises(ConfigError, match=r"runtime-api\.yaml: is not valid YAML: drainSeconds is written twice"):
        write_settings(folder, tmp_path)


def test_settings_whose_bytes_are_no_text_are_said_before_anything_starts(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "runtime-api.yaml").write_bytes(b"log: {level: \xff}")
    with pytest.raises(ConfigError, match=r"runtime-api\.yaml: is not valid YAML"):
        write_settings(folder, tmp_path)


def test_a_wrong_setting_is_said_before_anything_starts(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "runtime-api.yaml").write_text("wrokers: 3\n")
    with pytest.raises(ConfigError, match="wrokers"):
        write_settings(folder, tmp_path)


@pytest.mark.parametrize("text", ["[]", "- a", "a: [", "just words"])
def test_a_file_that_holds_no_settings_is_named(folder: Folder, tmp_path: Path, text: str) -> None:
    (tmp_path / "proxy.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"proxy\.yaml"):
        write_settings(folder, tmp_path)


def test_the_committed_settings_work(folder: Folder) -> None:
    files = write_settings(folder, COMMITTED)
    for process, path in files.items():
        base = yaml.safe_load((COMMITTED / f"{process}.yaml").read_text())
        assert base.keys() <= yaml.safe_load(path.read_text()).keys()


def test_a_deeper_setting_replaces_only_itself() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}}) == {"a": {"b": 9, "c": 2}, "d": 3}


@mutant("cmd/up/settings.py", '= {"enabled": not own_cluster}', '= {"enabled": False}')
@mutant("cmd/up/run.py", "own_cluster = options.kubeconfig is None", "own_cluster = True")
@pytest.mark.parametrize("own", [True, False])
async def test_controllers_are_elected_on_every_cluster_but_the_one_that_up_starts(
    tmp_path: Path, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def installed(*_: object) -> None:
        """Installing needs a cluster."""

    monkeypatch.setattr(run, "_install", installed)
    config = tmp_path / "config"
    config.mkdir()
    (config / "controller-manager.yaml").write_text("leaderElection: {enabled: false}\n")
    layout = Layout.at(tmp_path / "data")
    layout.supervised.make()
    options = Options(layout, port=free_ports(1)[0], config=config, kubeconfig=None if own else tmp_path / "theirs")
    _, _, programs = await plan(options)
    file = next(program.files[0] for program in programs if program.name == "controller-manager")
    assert CONTROLLER_MANAGER.load_settings(file, {}).leaderElection.enabled is not own


def test_an_environment_that_switches_election_off_is_refused_on_a_cluster_of_others(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_RUNTIME_CONTROLLER_MANAGER_LEADER_ELECTION_ENABLED", "false")
    with pytest.raises(ConfigError, match=r"^leaderElection.enabled: .* with --kubeconfig it must be on"):
        write_settings(folder, None, own_cluster=False)
    write_settings(folder, None, own_cluster=True)
