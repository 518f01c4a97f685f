"""The control plane's command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from realkube import flags
from realkube.certificates import Pair
from realkube.control_plane import User

IDENTITY = flags.Identity(
    ca_file=Path("/pki/ca.crt"),
    serving=Pair(Path("/pki/serving.crt"), Path("/pki/serving.key")),
    kubelet_client=Pair(Path("/pki/client.crt"), Path("/pki/client.key")),
    service_account_key=Path("/pki/sa.key"),
    token_file=Path("/pki/tokens.csv"),
)


def apiserver(address: str) -> list[str]:
    return flags.apiserver(IDENTITY, address, port=6443, etcd_port=2379, service_network="10.96.0.0/16")


def test_the_api_server_listens_at_its_one_address_only() -> None:
    line = apiserver("10.244.1.2")

    assert "--bind-address=10.244.1.2" in line
    assert "--advertise-address=10.244.1.2" in line
    assert "--etcd-servers=http://10.244.1.2:2379" in line


@pytest.mark.parametrize(("address", "published"), [("127.0.0.1", False), ("10.244.1.2", True)])
def test_an_address_that_pods_could_not_reach_is_not_published(address: str, published: bool) -> None:
    assert ("--endpoint-reconciler-type=none" not in apiserver(address)) == published


def test_access_is_decided_by_roles() -> None:
    assert "--authorization-mode=Node,RBAC" in apiserver("127.0.0.1")


def test_etcd_never_waits_for_the_disk() -> None:
    assert "--unsafe-no-fsync" in flags.etcd(Path("/data"), "127.0.0.1", client_port=1, peer_port=2)


def test_more_flags_come_last_so_that_they_win() -> None:
    line = flags.controller_manager(IDENTITY, Path("/kubeconfig"), ["--kube-api-qps=1"])

    assert line[-1] == "--kube-api-qps=1"


def test_kwok_keeps_to_the_nodes_that_carry_its_annotation() -> None:
    line = flags.kwok(Path("/kubeconfig"), Path("/stages.yaml"), port=1)

    assert "--manage-all-nodes=false" in line
    assert "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake" in line


def test_a_users_groups_are_one_quoted_column_of_the_token_file() -> None:
    assert User("alice", "secret", ("a", "b")).line() == 'secret,alice,alice,"a,b"\n'
