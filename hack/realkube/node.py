"""A real node: containerd with a CNI bridge, kubelet and kube-proxy.

It runs inside the cluster's own namespaces (see supervisor.py), where the usual folders under /run and /var are
private: nothing here can meet another container engine of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from realkube import binaries, node_config
from realkube.certificates import Pair
from realkube.control_plane import ControlPlane
from realkube.errors import RealKubeError
from realkube.images import PAUSE
from realkube.process import Process, must_run, run, wait_until
from realkube.progress import Say, timed
from realkube.site import Site

NODE = "gpu-node"
SIMULATED_GPUS = 4
CTR = ("ctr", "--address", node_config.CONTAINERD_SOCKET)


class Node:
    """One node of the control plane's cluster. It is never stopped: it ends with its namespaces."""

    def __init__(self, site: Site, plane: ControlPlane, say: Say = print) -> None:
        self._site = site
        self._plane = plane
        self._say = say
        self._folder = site.state / "node"
        self._processes: list[Process] = []
        for each in ("containerd", "cni", "kubelet", "logs"):
            (self._folder / each).mkdir(parents=True)

    def start(self, images: Future[Path]) -> None:
        """Return when the node is Ready, offers its GPUs and holds every image of the archive."""
        programs = binaries.ensure("kubelet", "kube-proxy", say=self._say)
        with timed("containerd ready", self._say):
            self._start_containerd()
        with timed("images loaded", self._say):
            must_run(*CTR, "--namespace", "k8s.io", "images", "import", str(images.result()))
        with timed(f"kubelet: {NODE} Ready with {SIMULATED_GPUS} simulated GPUs", self._say):
            self._start_kubelet(programs["kubelet"])
            self._add_gpus()
        with timed("kube-proxy: Services reachable", self._say):
            self._start_kube_proxy(programs["kube-proxy"])

    def _start_containerd(self) -> None:
        network = self._folder / "cni" / "10-bridge.conflist"
        network.write_text(json.dumps(node_config.cni(self._site.pod_network), indent=2))
        config = self._folder / "containerd.toml"
        config.write_text(node_config.containerd(self._folder / "containerd", network.parent, PAUSE))
        self._run("containerd", ["containerd", "--config", config])
        self._wait(lambda: run(*CTR, "version").returncode == 0, "containerd answers")

    def _start_kubelet(self, program: Path) -> None:
        authority = self._plane.authority
        serving = authority.server("kubelet", [NODE, self._site.node_address])
        resolver = self._folder / "resolv.conf"
        resolver.touch()
        config = self._folder / "kubelet.json"
        config.write_text(json.dumps(node_config.kubelet(self._site, serving, authority.ca_file, resolver), indent=2))
        kubeconfig = self._kubeconfig("kubelet", authority.client(f"system:node:{NODE}", ["system:nodes"]))
        places = [f"--config={config}", f"--kubeconfig={kubeconfig}", f"--root-dir={self._folder / 'kubelet'}"]
        names = [f"--hostname-override={NODE}", f"--node-ip={self._site.node_address}"]
        self._run("kubelet", [program, *places, *names])
        self._wait(self._is_ready, f"{NODE} is Ready")

    def _start_kube_proxy(self, program: Path) -> None:
        kubeconfig = self._kubeconfig("kube-proxy", self._plane.authority.client("system:kube-proxy"))
        config = self._folder / "kube-proxy.json"
        config.write_text(json.dumps(node_config.kube_proxy(self._site, NODE, kubeconfig), indent=2))
        self._run("kube-proxy", [program, f"--config={config}"])
        # The first Service it makes rules for is the API server's own.
        self._wait(lambda: "KUBE-SVC-" in run("iptables-save", "-t", "nat").stdout, "kube-proxy writes its rules")

    def _is_ready(self) -> bool:
        answer = self._plane.admin.request("GET", f"/api/v1/nodes/{NODE}")
        conditions = answer.body["status"].get("conditions", []) if answer.status == 200 else []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _add_gpus(self) -> None:
        """The kubelet keeps what it does not know in its node's status, so GPUs need no device plugin."""
        resources = {"nvidia.com/gpu": str(SIMULATED_GPUS)}
        patch = {"status": {"capacity": resources, "allocatable": resources}}
        path = f"/api/v1/nodes/{NODE}/status"
        answer = self._plane.admin.request("PATCH", path, patch, "application/merge-patch+json")
        if answer.status != 200:
            raise RealKubeError(f"{NODE} takes no GPUs: {answer.body}")

    def _kubeconfig(self, name: str, client: Pair) -> Path:
        return self._plane.admin.write_kubeconfig(self._folder / f"{name}.kubeconfig", client)

    def _run(self, name: str, command: Sequence[str | Path]) -> None:
        self._processes.append(Process(name, command, self._folder / "logs" / f"{name}.log"))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, self._processes)
