"""The first process inside the cluster's namespaces: starts everything there and reaps what it leaves.

The cluster has PID, mount and network namespaces of its own. The kernel takes all of it away when this process
ends: every container, every mount, every link and every iptables rule. What it says on its standard output is for
whoever ran `up`; it says nothing more there once the cluster is ready.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from realkube import cgroups, dns, node_config
from realkube.api import Access
from realkube.archive import write_archive
from realkube.control_plane import ControlPlane
from realkube.images import all_images
from realkube.node import Node
from realkube.process import Process, must_run, wait_until
from realkube.progress import timed
from realkube.site import Site

IN_NAMESPACES = "in its namespaces"
READY = "ready"
RUN = Path("/run")
OVERLAID = (Path("/var/lib"), Path("/var/log"))
PRIVATE_FOLDERS = (RUN, *OVERLAID)
LAST_CLASS = "local"  # the last of the storage classes that the provisioner makes


def supervise(site: Site) -> None:
    """Start the cluster, then live as its init process."""
    say(IN_NAMESPACES)
    sys.stdin.read()  # its end says that the cable is in; see cluster.py
    private_folders(site)
    own_network(site)
    cgroups.make(site.cgroup)
    with ThreadPoolExecutor(1) as beside:  # making images takes as long as the control plane does to start
        images = beside.submit(make_images, site.state / "images.tar")
        plane = ControlPlane(
            site.state / "control-plane",
            address=site.node_address,
            service_network=site.service_network,
            say=say,
        )
        plane.start()
        volumes = Process("provisioner", provisioner_command(site, plane), site.state / "provisioner.log")
        names = dns.ServiceNames(plane.admin, node_config.CLUSTER_DOMAIN)
        threading.Thread(target=dns.serve, args=(site.node_address, names), daemon=True).start()
        Node(site, plane, say).start(images)
        with timed("provisioner: storage classes served", say):
            wait_until(lambda: serves_classes(plane.admin), "the storage classes appear", [volumes])
    images.result().unlink()
    plane.admin.write_kubeconfig(site.kubeconfig)
    say(READY)
    while True:
        os.wait()  # shims outlive what started them, and their last parent is this process


def say(line: str) -> None:
    print(line, flush=True)


def provisioner_command(site: Site, plane: ControlPlane) -> list[str | Path]:
    """It starts while the node does: it takes a second, and nobody waits for it."""
    folder = site.state / "volumes"
    folder.mkdir()
    return [sys.executable, "-m", "realkube", "provision", plane.kubeconfig, folder]


def serves_classes(admin: Access) -> bool:
    return admin.request("GET", f"/apis/storage.k8s.io/v1/storageclasses/{LAST_CLASS}").status == 200


def make_images(path: Path) -> Path:
    with timed("images made", say):
        write_archive(path, all_images())
    return path


def private_folders(site: Site) -> None:
    """Give the node its own /run, /var/lib and /var/log: containerd, kubelet and CNI write to fixed places there."""
    memory = site.state / "private"
    memory.mkdir()
    must_run("mount", "-t", "tmpfs", "gpu-runtime", str(memory))
    for folder in OVERLAID:
        upper, work = memory / folder.name, memory / f"{folder.name}.work"
        upper.mkdir()
        work.mkdir()
        # What is there stays readable: the checkout or its interpreter may lie under it.
        layers = f"lowerdir={folder},upperdir={upper},workdir={work}"
        must_run("mount", "-t", "overlay", "gpu-runtime", "-o", layers, str(folder))
    must_run("mount", "-t", "tmpfs", "gpu-runtime", str(RUN))


def own_network(site: Site) -> None:
    """Bring the node's end of the cable up, and let it forward between pods and the machine."""
    must_run("ip", "link", "set", "lo", "up")
    must_run("ip", "address", "add", f"{site.node_address}/30", "dev", "eth0")
    must_run("ip", "link", "set", "eth0", "up")
    must_run("ip", "route", "add", "default", "via", site.machine_address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    bridged_traffic = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridged_traffic.exists():  # else a pod cannot reach a Service whose pod is on the same bridge
        bridged_traffic.write_text("1")
