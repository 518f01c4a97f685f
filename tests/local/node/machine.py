"""What of a pod runtime is on the machine: the lists that must be the same before and after."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from gpu_runtime.local.node.shim.netlink import Netlink


def remains(data_dir: Path) -> dict[str, list[str]]:
    """Processes, mounts, links and cgroups that belong to the runtime of this data directory."""
    mine = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:8]
    with Netlink() as netlink:
        links = [name for name in netlink.links() if name == f"gr-{mine}" or name in _pod_links(data_dir)]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(data_dir) in line]
    record = data_dir / "node" / "cgroups.json"
    bases = json.loads(record.read_text())["bases"].values() if record.exists() else ()
    cgroups = [base for base in bases if Path(base).exists()]
    return {"processes": processes(data_dir), "mounts": mounts, "links": sorted(links), "cgroups": cgroups}


def _pod_links(data_dir: Path) -> set[str]:
    mine = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:8]
    pods = data_dir / "pods"
    uids = [path.name for path in pods.iterdir()] if pods.is_dir() else []
    return {f"gr{hashlib.sha256((mine + uid).encode()).hexdigest()[:12]}" for uid in uids}


def processes(data_dir: Path) -> list[str]:
    """Every process that holds a file of the data directory open or was started with its name in DATA_DIR."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            places = [str(path.readlink()) for path in (entry / "fd").iterdir()]
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if any(place.startswith(str(data_dir)) for place in places) or f"DATA_DIR={data_dir}".encode() in environment:
            found.append(f"{entry.name} {(entry / 'comm').read_text().strip()}")
    return found
