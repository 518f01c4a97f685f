"""Where an installation on this machine keeps its things, and which ports it was last given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpu_runtime.supervisor.files import write_private
from gpu_runtime.supervisor.folder import Folder

LOOPBACK = "127.0.0.1"


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Ports of this machine's loopback: of the embedded cluster, and of each process by its name."""

    kubernetes: int
    http: dict[str, int]
    health: dict[str, int]

    def urls(self) -> dict[str, str]:
        """Where each process that serves HTTP is reached."""
        return {process: f"http://{LOOPBACK}:{port}" for process, port in self.http.items()}


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` decided when it last started here; the next start decides the same where it can."""

    ports: Ports
    kubeconfig: str


@dataclass(frozen=True)
class Layout:
    """The data directory. The embedded cluster keeps its things at its top and masks all of it from pods."""

    root: Path

    @classmethod
    def at(cls, given: Path | None) -> Layout:
        return cls((given or default_data_dir()).expanduser().absolute())

    @property
    def supervised(self) -> Folder:
        """The supervisor's own part."""
        return Folder(self.root / "up")

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    def remember(self, installation: Installation) -> None:
        write_private(self._installation, msgspec.json.encode(installation))

    def remembered(self) -> Installation | None:
        """None where `up` has never run, or an older version of it."""
        try:
            return msgspec.json.decode(self._installation.read_bytes(), type=Installation)
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def _installation(self) -> Path:
        return self.supervised.root / "installation.json"


def default_data_dir() -> Path:
    shared = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(shared) / "gpu-runtime"


def kubernetes_url(ports: Ports) -> str:
    return f"https://{LOOPBACK}:{ports.kubernetes}"
