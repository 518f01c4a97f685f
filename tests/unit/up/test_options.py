from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.cmd.up.run import Options, up
from gpu_runtime.config import ConfigError


def test_gpus_of_a_cluster_that_is_not_ours_cannot_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--gpus is for the embedded cluster"):
        up(Options(Layout.at(tmp_path), gpus=2, kubeconfig=tmp_path / "kubeconfig"))


def test_a_data_directory_that_cannot_be_made_is_named() -> None:
    with pytest.raises(ConfigError, match="data directory /proc/nowhere cannot be used"):
        up(Options(Layout.at(Path("/proc/nowhere"))))
