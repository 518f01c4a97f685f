"""Decides from the mount table which parts of the machine's file system a container sees."""

from __future__ import annotations

from collections.abc import Iterable

# Never the machine's own: each container gets a fresh one, or none.
FRESH = ("/proc", "/sys", "/dev", "/run", "/tmp")  # noqa: S108 (a name inside the pod's root)

# File systems without files of the machine.
_VIRTUAL = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"}
    | {"fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "sysfs", "tracefs"}
)
# Mounts of other containers and of packages: many, and no pod's business.
_FOREIGN = ("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/snap", "/var/snap")


def inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescape(text: str) -> str:
    for escape, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, plain)
    return text


def carried_mounts(mountinfo: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Mount points with files of the machine (a disk, a driver's folder) that an overlay would lose."""
    hidden = (*FRESH, *_FOREIGN, *hidden)
    found: dict[str, bool] = {}
    for line in mountinfo:
        fields = line.split()
        point = _unescape(fields[4])
        kind = fields[fields.index("-") + 1]
        # Of two mounts at one place the later one is what the machine sees.
        found.pop(point, None)
        found[point] = kind not in _VIRTUAL
    return sorted(
        point
        for point, real in found.items()
        if real and point.count("/") > 1 and not any(inside(point, folder) for folder in hidden)
    )
