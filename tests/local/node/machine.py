"""What of a pod runtime is on the machine: the lists that must be the same before and after."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from gpu_runtime.local.node.shim.netlink import Netlink


def remains(data_dir: Path) -> dict[str, list[str]]:
    """Processes, mounts, links and cgroups that belong to the runtime of this data directory."""
    pods = data_dir / "pods"
    links = links_of(data_dir, [path.name for path in pods.iterdir()] if pods.is_dir() else [])
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(data_dir) in line]
    record = data_dir / "node" / "cgroups.json"
    bases = json.loads(record.read_text())["bases"].values() if record.exists() else ()
    cgroups = [base for base in bases if Path(base).exists()]
    with Netlink() as netlink:
        links += [name for name in netlink.links() if name == f"gr-{_mine(data_dir)}"]
    return {"processes": processes(data_dir), "mounts": mounts, "links": sorted(links), "cgroups": cgroups}


def links_of(data_dir: Path, uids: Iterable[str]) -> list[str]:
    """The network links that pods of these uids have."""
    known = {f"gr{hashlib.sha256((_mine(data_dir) + uid).encode()).hexdigest()[:12]}" for uid in uids}
    with Netlink() as netlink:
        return sorted(known & set(netlink.links()))


def _mine(data_dir: Path) -> str:
    return hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:8]


def processes(data_dir: Path) -> list[str]:
    """Every process that holds a file of the data directory open or was started with its name in DATA_DIR."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            places = [str(path.readlink()) for path in (entry / "fd").iterdir()]
            environment, name = (entry / "environ").read_bytes(), (entry / "comm").read_text().strip()
        except OSError:  # it has just ended
            continue
        if any(place.startswith(str(data_dir)) for place in places) or f"DATA_DIR={data_dir}".encode() in environment:
            found.append(f"{entry.name} {name}")
    return found
