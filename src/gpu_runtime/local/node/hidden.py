"""Paths that are hidden from pods: homes, credentials, keys, and the sockets that control containers and services."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpu_runtime.local.node.shim.mounts import inside

ORDINARY_USERS = range(1000, 65534)
_HOMES = ("/home", "/root")
_CREDENTIALS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/krb5.keytab",
    "/etc/ssl/private", "/etc/pki/tls/private", "/etc/wireguard", "/etc/NetworkManager/system-connections",
    "/etc/kubernetes", "/etc/rancher", "/etc/credstore", "/etc/credstore.encrypted",
)  # fmt: skip
_HOST_KEYS = ("/etc/ssh", "ssh_host_*_key")
# A pod has its own /run: these matter where a volume shows the machine's.
_CONTROL = (
    "/run/docker.sock", "/run/docker", "/run/containerd", "/run/crio", "/run/podman", "/run/k3s", "/run/systemd",
    "/run/dbus", "/run/initctl", "/run/user", "/run/credentials",
    "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher",
)  # fmt: skip


class ShownFolder(msgspec.Struct, frozen=True):
    """A folder that pods see although it lies in a hidden place; `writable` only where somebody asked for it."""

    path: str
    writable: bool = False

    @classmethod
    def parse(cls, text: str) -> ShownFolder:
        """`PATH`, or `PATH:rw`. ValueError when there is no such folder."""
        path, writable = (text.removesuffix(":rw"), True) if text.endswith(":rw") else (text, False)
        found = Path(path).expanduser()
        if not found.is_dir():
            raise ValueError(f"{path} is not a folder")
        return cls(str(found.resolve()), writable)

    def __str__(self) -> str:
        return self.path + (":rw" if self.writable else "")


class Hidden(msgspec.Struct, frozen=True):
    """Pods see `homes` as empty folders that they may write; they cannot open what is `masked`."""

    homes: list[str] = []
    masked: list[str] = []

    def hides(self, path: Path, shown: Iterable[ShownFolder] = ()) -> bool:
        """Whether a path, with its links resolved, is hidden."""
        real = str(path.resolve())
        if any(inside(real, place) for place in self.masked):
            return True
        return any(inside(real, home) for home in self.homes) and not any(inside(real, one.path) for one in shown)


def hidden_places() -> Hidden:
    """The hidden paths of this machine."""
    folder, pattern = _HOST_KEYS
    keys = sorted(str(path) for path in Path(folder).glob(pattern))
    users = [(entry.pw_uid, entry.pw_dir) for entry in pwd.getpwall()]
    found = homes([*users, (0, os.path.expanduser("~"))])  # noqa: PTH111  a user may have no home, and Path would raise
    return Hidden(homes=found, masked=[*_CREDENTIALS, *keys, *_CONTROL])


def homes(users: Iterable[tuple[int, str]]) -> list[str]:
    """The homes of root and of people, by their real places, none inside another.

    The home of a service often holds software, and a home directly below / (`/`, `/srv`) is shared: both stay visible.
    """
    people = [home for user, home in users if user == 0 or user in ORDINARY_USERS]
    found = {*_HOMES, *(home for home in people if home.startswith("/") and home.strip("/").count("/") > 0)}
    real = {str(Path(home).resolve()) for home in found}
    return sorted(home for home in real if not any(home != other and inside(home, other) for other in real))
