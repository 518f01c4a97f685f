"""What one complete cluster occupies on this machine, so that it can be found again and taken away."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from realkube.errors import RealKubeError

INDEX_VARIABLE = "GPU_RUNTIME_CLUSTER"
MARK_VARIABLE = "GPU_RUNTIME_CLUSTER_STATE"
MOST_SITES = 8


@dataclass(frozen=True)
class Site:
    """The names, folders and networks of cluster number `index`; two numbers share nothing."""

    index: int
    state: Path

    @classmethod
    def from_environment(cls) -> Site:
        """The cluster that the environment names, the first one by default."""
        text = os.environ.get(INDEX_VARIABLE, "0")
        if not text.isdecimal() or int(text) >= MOST_SITES:
            raise RealKubeError(f"{INDEX_VARIABLE}={text}: must be a number from 0 to {MOST_SITES - 1}")
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return cls(int(text), Path(base) / "gpu-runtime" / f"cluster-{text}")

    @property
    def link(self) -> str:
        """The machine's end of the cable to the node."""
        return f"gpurt{self.index}"

    @property
    def cgroup(self) -> str:
        """The parent of every container's cgroup, in each hierarchy."""
        return f"gpu-runtime-cluster-{self.index}"

    @property
    def pod_network(self) -> str:
        return f"10.{244 + self.index}.0.0/24"

    @property
    def service_network(self) -> str:
        return f"10.{96 + self.index}.0.0/16"

    @property
    def machine_address(self) -> str:
        """This machine, seen from the node."""
        return f"10.{244 + self.index}.1.1"

    @property
    def node_address(self) -> str:
        """The node and its control plane, seen from this machine and from pods."""
        return f"10.{244 + self.index}.1.2"

    @property
    def kubeconfig(self) -> Path:
        """Exists exactly while the cluster is up and ready."""
        return self.state / "kubeconfig"

    @property
    def mark(self) -> str:
        """In the environment of each of the cluster's processes, and of no other."""
        return f"{MARK_VARIABLE}={self.state}"
