"""A complete cluster on this machine: up, and down without a trace."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from realkube import binaries, packages, supervisor
from realkube.errors import RealKubeError
from realkube.process import must_run, run
from realkube.progress import Say
from realkube.removal import processes, remove
from realkube.site import INDEX_VARIABLE, MARK_VARIABLE, Site

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kube-proxy")
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")


def up(site: Site, say: Say) -> None:
    """Start the cluster, or find it running; when it cannot start, nothing of it is left."""
    require_root()
    with alone(site):
        if processes(site):
            if not site.kubeconfig.exists():
                raise RealKubeError("a cluster is half-started here: `make cluster-down`, then try again")
            say(f"already running\n{export_line(site)}")
            return
        remove(site)  # what a killed one left
        started = time.monotonic()
        packages.ensure(say)
        binaries.ensure(*PROGRAMS, say=say)
        require_room(site)
        try:
            start(site, say)
        except BaseException:
            remove(site)
            raise
        say(f"up after {time.monotonic() - started:.1f} s\n{export_line(site)}")


def down(site: Site, say: Say) -> None:
    """Take the cluster away, whatever state it is in."""
    require_root()
    with alone(site):
        if not processes(site) and not site.state.exists():
            say("no cluster is running here")
            return
        started = time.monotonic()
        remove(site)
        say(f"down after {time.monotonic() - started:.1f} s")


def start(site: Site, say: Say) -> None:
    """Run the supervisor in namespaces of its own, plug in its network, and pass on what it says until it is ready."""
    site.state.mkdir(parents=True, mode=0o700)
    log = site.state / "supervisor.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["unshare", *NAMESPACES, sys.executable, "-m", "realkube", "supervise"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, MARK_VARIABLE: str(site.state)},
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        match line.rstrip():
            case supervisor.IN_NAMESPACES:
                plug_in(site, process.pid)
                process.stdin.close()  # the sign that the cable is in
            case supervisor.READY:
                return
            case progress:
                say(progress)
    words = log.read_text().strip().splitlines()
    raise RealKubeError(words[-1] if words else "the cluster's supervisor ended without a word")


def plug_in(site: Site, process_id: int) -> None:
    """Lay a cable between this machine and the process's network, and route pods and Services through it."""
    must_run("ip", "link", "add", site.link, "type", "veth", "peer", "name", "eth0", "netns", str(process_id))
    must_run("ip", "address", "add", f"{site.machine_address}/30", "dev", site.link)
    must_run("ip", "link", "set", site.link, "up")
    for network in (site.pod_network, site.service_network):
        must_run("ip", "route", "add", network, "via", site.node_address)


def require_root() -> None:
    if os.geteuid() != 0:
        raise RealKubeError("a real cluster needs root: run it with sudo, or use the embedded cluster")


def require_room(site: Site) -> None:
    """Raise if the cluster would meet something that is already here."""
    hidden = next((folder for folder in supervisor.PRIVATE_FOLDERS if site.state.is_relative_to(folder)), None)
    if hidden is not None:
        raise RealKubeError(f"{site.state} lies under {hidden}, which the node replaces: set XDG_STATE_HOME to another")
    routes = json.loads(run("ip", "-json", "route", "show").stdout or "[]")
    for wanted in (site.pod_network, f"{site.machine_address}/30", site.service_network):
        network = ipaddress.ip_network(wanted, strict=False)
        for route in routes:
            if route["dst"] != "default" and network.overlaps(ipaddress.ip_network(route["dst"])):
                raise RealKubeError(
                    f"this machine already routes {route['dst']} to {route.get('dev')}, which the cluster needs as"
                    f" {wanted}: set {INDEX_VARIABLE}=1 (or up to 7) to use other networks"
                )


@contextmanager
def alone(site: Site) -> Iterator[None]:
    """Keep a second `up` or `down` of the same cluster out; a killed one keeps nobody out."""
    with socket.socket(socket.AF_UNIX) as name:
        try:
            name.bind(f"\0{site.state}")
        except OSError:
            raise RealKubeError("another cluster-up or cluster-down is at work: wait for it") from None
        yield


def export_line(site: Site) -> str:
    return f"export KUBECONFIG={site.kubeconfig}"
