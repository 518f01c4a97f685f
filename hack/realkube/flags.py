"""The command lines of the control plane's programs. Pure: same input, same flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realkube.certificates import Pair

SERVICE_NETWORK = "10.96.0.0/16"
API_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
LOOPBACK = "127.0.0.1"
FAKE_NODE = {"kwok.x-k8s.io/node": "fake"}  # the annotation by which kwok knows its nodes

# Without these the controllers hold themselves to 20 requests a second: 300 Deployments take 71 s instead of 5.
CLIENT_RATE = ("--kube-api-qps=1000", "--kube-api-burst=2000")


@dataclass(frozen=True)
class Identity:
    """The secrets that the control plane's programs start with."""

    ca_file: Path
    serving: Pair
    kubelet_client: Pair  # who the API server is when it asks a kubelet for logs or an exec
    service_account_key: Path
    token_file: Path


def etcd(data: Path, address: str, client_port: int, peer_port: int) -> list[str]:
    """etcd with one member and without fsync: faster, and nothing here outlives a crash of the machine."""
    client, peer = f"http://{address}:{client_port}", f"http://{address}:{peer_port}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(identity: Identity, address: str, port: int, etcd_port: int, service_network: str) -> list[str]:
    """kube-apiserver with real authentication and RBAC, reached at one address only."""
    return [
        f"--etcd-servers=http://{address}:{etcd_port}",
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={port}",
        # The API server refuses a loopback address as endpoint of its own Service, once every 10 s.
        *(["--endpoint-reconciler-type=none"] if address == LOOPBACK else []),
        f"--tls-cert-file={identity.serving.certificate}",
        f"--tls-private-key-file={identity.serving.key}",
        f"--client-ca-file={identity.ca_file}",
        f"--token-auth-file={identity.token_file}",
        f"--kubelet-client-certificate={identity.kubelet_client.certificate}",
        f"--kubelet-client-key={identity.kubelet_client.key}",
        f"--kubelet-certificate-authority={identity.ca_file}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={identity.service_account_key}",
        f"--service-account-signing-key-file={identity.service_account_key}",
        f"--service-cluster-ip-range={service_network}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def controller_manager(identity: Identity, kubeconfig: Path, more: Sequence[str] = ()) -> list[str]:
    """kube-controller-manager with enough workers for tests of scale."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={identity.service_account_key}",
        f"--root-ca-file={identity.ca_file}",
        "--leader-elect=false",
        "--secure-port=0",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
        *CLIENT_RATE,
        *more,
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    """kube-scheduler."""
    return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", *CLIENT_RATE]


def kwok(kubeconfig: Path, stages: Path, port: int) -> list[str]:
    """kwok for the nodes that carry its annotation, and for no others."""
    [(annotation, value)] = FAKE_NODE.items()
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={annotation}={value}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.244.0.0/16",
        f"--server-address={LOOPBACK}:{port}",
    ]
