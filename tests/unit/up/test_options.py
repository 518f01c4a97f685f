from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runtime.cmd.up.layout import Layout, Ports
from gpu_runtime.cmd.up.programs import cluster
from gpu_runtime.cmd.up.run import Options, up
from gpu_runtime.errors import ConfigError
from realkube.process import free_ports


def test_gpus_of_a_cluster_that_is_not_ours_cannot_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--gpus works only with the embedded cluster"):
        up(Options(Layout.at(tmp_path), gpus=2, kubeconfig=tmp_path / "kubeconfig"))


def test_a_data_directory_that_cannot_be_made_is_named() -> None:
    with pytest.raises(ConfigError, match="data directory /proc/nowhere cannot be used"):
        up(Options(Layout.at(Path("/proc/nowhere"))))


@pytest.mark.parametrize("file", ["run/lock", "config/runtime-api.yaml", "installation.json"])
def test_a_data_directory_that_cannot_be_written_is_named(tmp_path: Path, file: str) -> None:
    """A folder stands in for a read-only or full disk: nothing can be written in its place."""
    (tmp_path / "up" / file).mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"data directory {tmp_path} cannot be used: Is a directory"):
        up(Options(Layout.at(tmp_path), port=free_ports(1)[0]))


def test_a_folder_to_show_that_is_not_there_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--show: .*/nowhere is not a folder"):
        up(Options(Layout.at(tmp_path / "data"), shown=(f"{tmp_path}/nowhere:rw",)))
    assert not (tmp_path / "data").exists()


def test_folders_are_shown_to_pods_of_the_embedded_cluster_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--show works only with the embedded cluster"):
        up(Options(Layout.at(tmp_path), kubeconfig=tmp_path / "kubeconfig", shown=(str(tmp_path),)))


def test_the_embedded_cluster_is_told_which_folders_to_show(tmp_path: Path) -> None:
    async def prepare() -> None:
        return None

    ports = Ports(kubernetes=3, http={}, health={})
    command = cluster(Layout.at(tmp_path), ports, None, ("/a", "/b:rw"), prepare).command
    assert command[-4:] == ("--show", "/a", "--show", "/b:rw")
