"""What an installation could leave on the machine: processes, mounts and links that its data directory names."""

from __future__ import annotations

import hashlib
from pathlib import Path


def processes_of(data_dir: Path) -> list[str]:
    """Command lines that name the data directory."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{data_dir}" in line:
            found.append(f"{folder.name} {line}")
    return found


def mounts_of(data_dir: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{data_dir}/" in line]


def links_of(data_dir: Path) -> list[str]:
    """Links of the node agent, which has the data directory's digest in its name."""
    digest = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:8]
    return [path.name for path in Path("/sys/class/net").iterdir() if digest in path.name]


def cgroups_of(data_dir: Path) -> list[str]:
    digest = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:8]
    return [str(path) for path in Path("/sys/fs/cgroup").rglob(f"gpu-runtime-{digest}")]


def pods_of(data_dir: Path) -> list[str]:
    """Processes that hold a pod's lock: its shim, and the first process of each of its containers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            places = [str(path.readlink()) for path in (folder / "fd").iterdir()]
        except OSError:
            continue
        if any(place.startswith(f"{data_dir}/pods/") for place in places):
            found.append(f"{folder.name} of a pod")
    return found


def traces_of(data_dir: Path) -> list[str]:
    left = [*processes_of(data_dir), *mounts_of(data_dir), *links_of(data_dir)]
    return [*left, *cgroups_of(data_dir), *pods_of(data_dir)]
