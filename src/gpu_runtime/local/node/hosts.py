"""The files by which names resolve inside a pod."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpu_runtime.supervisor.files import write_all

DOMAIN = "svc.cluster.local"


class ServiceName(NamedTuple):
    """A Service and the address that its name stands for."""

    namespace: str
    name: str
    address: str


def hosts_file(address: str, hostname: str, namespace: str, services: Iterable[ServiceName]) -> str:
    """The pod's own name and every Service by its long names; those of its own namespace by their short name too."""
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        f"{address}\t{hostname}",
    ]
    for service in sorted(services):
        full = f"{service.name}.{service.namespace}"
        names = [f"{full}.{DOMAIN}", f"{full}.svc", full]
        if service.namespace == namespace:
            names.append(service.name)
        lines.append("\t".join((service.address, " ".join(names))))
    return "\n".join(lines) + "\n"


def resolv_conf(machine: str, namespace: str) -> str:
    """The machine's name servers that a pod could reach, behind the cluster's search domains."""
    servers = [
        line
        for line in machine.splitlines()
        if line.split()[:1] == ["nameserver"] and not line.split()[1].startswith(("127.", "::1"))
    ]
    return "\n".join([f"search {namespace}.{DOMAIN} {DOMAIN} cluster.local", *servers, "options ndots:5"]) + "\n"


def write_in_place(path: Path, content: str) -> None:
    """Rewrites the file in place: containers have it mounted, and would keep the old content of a replaced file."""
    data = content.encode()
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    try:
        if len(data) > os.fstat(descriptor).st_size:
            os.posix_fallocate(descriptor, 0, len(data))  # a full disk refuses here, before anything has changed
        write_all(descriptor, data, at=0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def write_hosts(etc: Path, address: str, hostname: str, namespace: str, services: Iterable[ServiceName]) -> None:
    """Brings the pod's hosts file up to date, also while containers have it open."""
    write_in_place(etc / "hosts", hosts_file(address, hostname, namespace, services))


def write_own_name(etc: Path, hostname: str, namespace: str) -> None:
    """The files that stay as they are for the pod's whole life."""
    machine = Path("/etc/resolv.conf")
    write_in_place(etc / "resolv.conf", resolv_conf(machine.read_text() if machine.is_file() else "", namespace))
    write_in_place(etc / "hostname", hostname + "\n")
