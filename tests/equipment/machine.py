"""What a cluster could leave on the machine that it ran on."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from realkube.cgroups import hierarchies
from realkube.removal import processes
from realkube.site import Site

PLACES = (
    *("/etc/cni", "/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/containerd"),
    *("/var/lib/kubelet", "/var/lib/kube-proxy", "/var/log/containers", "/var/log/pods", "/opt/containerd"),
)


def traces(site: Site) -> set[str]:
    """The machine's links, routes, mounts, cgroups, packet filter rules and the folders that node software uses.

    Those of other clusters are left out: one may come or go beside this one at any time.
    """
    links = [f"link {each['ifname']}" for each in json.loads(output("ip", "-json", "link"))]
    routes = [f"route {each['dst']} link {each.get('dev')}" for each in json.loads(output("ip", "-json", "route"))]
    mounts = [f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    cgroups = [f"cgroup {folder}" for root in hierarchies() for folder in root.iterdir() if folder.is_dir()]
    rules = [
        f"{program} {line}"
        for program in ("iptables-save", "ip6tables-save")
        for line in output(program).splitlines()
        if line.startswith(("-A", "*"))
    ]
    places = [f"folder {place}" for place in PLACES if Path(place).exists()]
    everything = {*links, *routes, *mounts, *cgroups, *rules, *places}
    return {trace for trace in everything if not of_another_cluster(trace, site)}


def of_another_cluster(trace: str, site: Site) -> bool:
    """Whether the link or cgroup that a trace names is another real cluster's or an embedded one's."""
    found = re.search(r"(link (gpurt|gr)|/gpu-runtime-)\S+$", trace)
    return found is not None and not trace.endswith((site.link, site.cgroup))


def everything_running_for(site: Site) -> set[tuple[str, str]]:
    """Every process of a cluster: those that carry its mark, and those in its containers' cgroups.

    Each as its id and the time it started: ids are used again, pairs are not.
    """
    marked = [Path("/proc", str(process_id)) for process_id in processes(site)]
    contained = [folder for folder in Path("/proc").glob("[0-9]*") if site.cgroup in cgroups_of(folder)]
    return {(folder.name, started(folder)) for folder in (*marked, *contained)}


def still_running(processes: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of the processes that have not ended."""
    return {(process_id, start) for process_id, start in processes if started(Path("/proc", process_id)) == start}


def name_of(process_id: str) -> str:
    """The name of a process's program; nothing for one that is gone."""
    try:
        return Path("/proc", process_id, "comm").read_text().strip()
    except OSError:
        return ""


def cgroups_of(folder: Path) -> str:
    try:
        return (folder / "cgroup").read_text()
    except OSError:
        return ""  # it has just ended


def started(folder: Path) -> str:
    """The time a process started, in the kernel's ticks; nothing for one that is gone or only waits to be reaped."""
    try:
        state, *rest = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else rest[18]


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
