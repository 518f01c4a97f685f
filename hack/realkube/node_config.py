"""The configuration files of a node's programs. Pure: same input, same text."""

from __future__ import annotations

from pathlib import Path

from realkube.certificates import Pair
from realkube.site import Site

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"  # where Debian has them
CLUSTER_DOMAIN = "cluster.local"


def containerd(root: Path, cni_folder: Path, sandbox_image: str) -> str:
    """containerd for the kubelet, with local images and the CNI network of the given folder."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", \
"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{root}/opt"
[{cri}]
sandbox_image = "{sandbox_image}"
# Without CAP_SYS_RESOURCE nobody may lower it: runc dies with "can't get final child's PID from pipe: EOF".
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{cni_folder}"
[{cri}.containerd]
snapshotter = "overlayfs"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def cni(pod_network: str) -> dict[str, object]:
    """Pods on one bridge, each with an address of the network; a pod may reach itself through a Service."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": pod_network}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return {"cniVersion": "0.4.0", "name": "gpu-runtime", "plugins": [bridge, {"type": "loopback"}]}


def kubelet(site: Site, serving: Pair, ca_file: Path, resolver: Path) -> dict[str, object]:
    """A kubelet that trusts the API server's client certificate and keeps to one cgroup of its own."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": site.node_address,
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca_file)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [site.node_address],
        "resolvConf": str(resolver),
        "volumePluginDir": str(site.state / "node" / "volume-plugins"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{site.cgroup}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,  # never: an image that is removed here comes back from nowhere
        "localStorageCapacityIsolation": False,
    }


def kube_proxy(site: Site, node: str, kubeconfig: Path) -> dict[str, object]:
    """Services by iptables; connection tracking is left as the machine has it, whose limits are not ours to change."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node,
        "clusterCIDR": site.pod_network,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
