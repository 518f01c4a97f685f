"""The data directory of an installation on this machine, and the ports of its last start."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpu_runtime.supervisor.files import write_private
from gpu_runtime.supervisor.folder import Folder

LOOPBACK = "127.0.0.1"


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Ports on loopback: of the embedded cluster, of the broker, and of each process by name."""

    kubernetes: int
    http: dict[str, int]
    health: dict[str, int]
    # 0: the installation is of a version without a broker.
    broker: int = 0
    brokerHealth: int = 0

    def urls(self) -> dict[str, str]:
        """The URL of each process that serves HTTP, by name."""
        return {process: f"http://{LOOPBACK}:{port}" for process, port in self.http.items()}


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What the last `up` chose. The next `up` chooses the same if possible."""

    ports: Ports
    kubeconfig: str


class EarlierPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The ports in the first file format of version 0.1: one field for each port."""

    api: int
    proxy: int
    kubernetes: int
    controllerManagerHealth: int
    runtimeApiHealth: int
    proxyHealth: int


class EarlierInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """An installation in that format. An upgrade must keep the ports, because links and kubeconfig files name them."""

    ports: EarlierPorts
    kubeconfig: str

    def today(self) -> Installation:
        ports = self.ports
        health = {
            "controller-manager": ports.controllerManagerHealth,
            "runtime-api": ports.runtimeApiHealth,
            "proxy": ports.proxyHealth,
        }
        http = {"runtime-api": ports.api, "proxy": ports.proxy}
        return Installation(
            ports=Ports(kubernetes=ports.kubernetes, http=http, health=health), kubeconfig=self.kubeconfig
        )


@dataclass(frozen=True)
class Layout:
    """The data directory. The embedded cluster stores its files at the top level and hides the directory from pods."""

    root: Path

    @classmethod
    def at(cls, given: Path | None) -> Layout:
        return cls((given or default_data_dir()).expanduser().absolute())

    @property
    def supervised(self) -> Folder:
        """The folder of the supervisor."""
        return Folder(self.root / "up")

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def results(self) -> Path:
        """The database of the results of invocations."""
        return self.root / "results" / "results.db"

    def remember(self, installation: Installation) -> None:
        write_private(self._installation, msgspec.json.encode(installation))

    def remembered(self) -> Installation | None:
        """The installation of the last start; None if there is none or its file cannot be read."""
        try:
            written = self._installation.read_bytes()
        except OSError:
            return None
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(written, type=Installation)
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(written, type=EarlierInstallation).today()
        return None

    @property
    def _installation(self) -> Path:
        return self.supervised.root / "installation.json"


def default_data_dir() -> Path:
    shared = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(shared) / "gpu-runtime"


def kubernetes_url(ports: Ports) -> str:
    return f"https://{LOOPBACK}:{ports.kubernetes}"
