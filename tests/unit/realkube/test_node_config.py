"""The node's configuration files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from realkube import node_config
from realkube.certificates import Pair
from realkube.errors import RealKubeError
from realkube.site import INDEX_VARIABLE, Site

SITE = Site(2, Path("/state/cluster-2"))


def test_containerd_finds_its_network_and_its_sandbox_image() -> None:
    config = tomllib.loads(node_config.containerd(Path("/state/containerd"), Path("/state/cni"), "local/pause:1"))

    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert config["root"] == "/state/containerd"
    assert cri["sandbox_image"] == "local/pause:1"
    assert cri["restrict_oom_score_adj"] is True
    assert cri["cni"]["conf_dir"] == "/state/cni"


def test_pods_get_addresses_of_the_sites_network() -> None:
    bridge = node_config.cni(SITE.pod_network)["plugins"][0]  # type: ignore[index]

    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.246.0.0/24"}]]


def test_the_kubelet_keeps_to_its_cgroup_and_to_authenticated_callers() -> None:
    serving = Pair(Path("/pki/kubelet.crt"), Path("/pki/kubelet.key"))
    config = node_config.kubelet(SITE, serving, Path("/pki/ca.crt"), Path("/state/resolv.conf"))

    assert config["cgroupRoot"] == "/gpu-runtime-cluster-2"
    assert config["address"] == SITE.node_address
    assert config["authentication"]["anonymous"] == {"enabled": False}  # type: ignore[index]


def test_kube_proxy_leaves_the_machines_connection_tracking_alone() -> None:
    config = node_config.kube_proxy(SITE, "node", Path("/kubeconfig"))

    assert config["conntrack"] == {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    }


def test_two_sites_share_nothing() -> None:
    one, other = Site(0, Path("/state/cluster-0")), Site(1, Path("/state/cluster-1"))
    names = ("link", "cgroup", "pod_network", "service_network", "node_address", "machine_address", "mark")

    assert all(getattr(one, name) != getattr(other, name) for name in names)


@pytest.mark.parametrize("index", ["-1", "8", "first", ""])
def test_a_wrong_site_number_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    monkeypatch.setenv(INDEX_VARIABLE, index)

    with pytest.raises(RealKubeError, match=r"GPU_RUNTIME_CLUSTER=.*: must be a number from 0 to 7"):
        Site.from_environment()


def test_the_state_lies_outside_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    monkeypatch.delenv(INDEX_VARIABLE, raising=False)

    assert Site.from_environment().state == Path("/somewhere/gpu-runtime/cluster-0")
