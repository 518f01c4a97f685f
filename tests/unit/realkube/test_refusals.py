"""What a person reads when a cluster cannot be started: one line that says what to do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from equipment.servers import namespace_name, use_running
from realkube import cluster, packages
from realkube.cluster import alone, require_room
from realkube.errors import RealKubeError
from realkube.progress import Say
from realkube.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(5, tmp_path / "cluster")


@pytest.mark.parametrize("command", [cluster.up, cluster.down])
def test_somebody_who_is_not_root_is_told_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, command: Callable[[Site, Say], None]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(RealKubeError, match="needs root"):
        command(site, print)


def test_two_commands_on_one_cluster_do_not_meet(site: Site) -> None:
    with alone(site), pytest.raises(RealKubeError, match="another cluster-up or cluster-down is at work"), alone(site):
        pass


def test_a_command_may_follow_another(site: Site) -> None:
    with alone(site):
        pass
    with alone(site):
        pass


def test_a_state_folder_that_the_node_would_hide_is_refused() -> None:
    with pytest.raises(RealKubeError, match=r"lies under /run.*set XDG_STATE_HOME"):
        require_room(Site(5, Path("/run/user/0/cluster")))


def test_a_network_that_the_machine_already_routes_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ip = tmp_path / "ip"
    ip.write_text("""#!/bin/sh\necho '[{"dst": "default"}, {"dst": "10.249.0.0/16", "dev": "other0"}]'\n""")
    ip.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(RealKubeError, match=r"already routes 10\.249\.0\.0/16 to other0.*GPU_RUNTIME_CLUSTER"):
        require_room(site)


def test_a_machine_without_apt_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PACKAGES", {"containerd": "no-such-program"})
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(RealKubeError, match=r"no apt-get on this machine: .*containerd"):
        packages.ensure(print)


def test_a_failed_installation_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'E: Unable to locate package containerd' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.setattr(packages, "PACKAGES", {"containerd": "no-such-program"})
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(shutil.which('sh') or '/bin/sh').parent}")

    with pytest.raises(RealKubeError, match="apt-get install containerd failed: E: Unable to locate package"):
        packages.ensure(print)


def test_a_kubeconfig_without_a_token_is_refused_by_its_name(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("clusters: []\n")

    with (
        pytest.raises(pytest.UsageError, match=f"GPU_RUNTIME_TEST_KUBECONFIG={kubeconfig}"),
        use_running(kubeconfig, tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("test_a_thing_works", "t-a-thing-works-ab12cd"),
        ("test_x[Ünïcode case]", "t-x-n-code-case-ab12cd"),
        ("test_" + "long_" * 30, "t-long-long-long-long-long-long-long-long-ab12cd"),
        ("test_", "t-ab12cd"),
    ],
)
def test_a_namespaces_name_is_legal_and_tells_the_test(hint: str, name: str) -> None:
    assert namespace_name(hint, "ab12cd") == name
