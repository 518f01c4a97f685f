"""The product on a real control plane with fake nodes, as benchmarks use it: what it writes and what it costs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from realkube import binaries
from realkube.api import Access
from realkube.control_plane import ControlPlane, User
from realkube.flags import FAKE_NODE
from realkube.process import Process, free_ports, wait_until

CONFIG = Path(__file__).parent.parent / "config"
OURS = ("runtime-api", "controller-manager")
KINDS = [
    f"/apis/runtime.lokiwager.io/v1alpha1/{kind}" for kind in ("gpuunits", "gpustorages", "stockpools", "operations")
]
NODES = 8
CAPACITY = {"cpu": "4096", "memory": "64Ti", "pods": "2000", "nvidia.com/gpu": "1024"}
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
AUDIT = {  # of our two processes every write, of all others nothing
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Metadata", "users": list(OURS), "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Usage:
    """What a process has used so far."""

    cpu_seconds: float
    memory_mib: float


@dataclass
class Product:
    """Both processes, running, and the control plane under them."""

    plane: ControlPlane
    folder: Path
    tokens: dict[str, str]
    url: str = ""
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def admin(self) -> Access:
        return self.plane.admin

    def usage(self) -> dict[str, Usage]:
        """By process: ours and the control plane's."""
        named = {name: process.pid for name, process in self.processes.items()}
        for pid in self.plane.process_ids():
            named[Path(f"/proc/{pid}/comm").read_text().strip()] = pid
        return {name: _usage(pid) for name, pid in named.items()}

    def writes(self) -> Counter[tuple[str, str]]:
        """Our writes so far, by process and by what was written; the server writes its audit a moment later."""
        counted: Counter[tuple[str, str]] = Counter()
        with (self.folder / "audit.log").open() as lines:
            for line in lines:
                entry = json.loads(line)
                about = entry["objectRef"]
                resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
                counted[entry["user"]["username"], f"{entry['verb']} {resource}"] += 1
        return counted


@contextmanager
def running_product() -> Iterator[Product]:
    """A control plane of its own with kwok and fake nodes, our kinds and both processes; nothing is kept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy = folder / "policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT))
        audit = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}", "--audit-log-mode=batch")
        users = [User(each, secrets.token_urlsafe(24), ("system:masters",)) for each in OURS]
        with ControlPlane(folder / "plane", users=users, server_flags=audit, say=lambda _: None) as plane:
            plane.start_kwok()
            _install(plane)
            product = Product(plane, folder, {each.name: each.token for each in users})
            try:
                yield product
            finally:
                for process in product.processes.values():
                    process.kill()


def start_processes(product: Product) -> None:
    """Both processes with the settings that the repository ships, on ports of their own."""
    api_port, *health = free_ports(3)
    product.url = f"http://127.0.0.1:{api_port}/api/v1"
    for name, port in zip(OURS, health, strict=True):
        settings: dict[str, Any] = yaml.safe_load((CONFIG / "local" / f"{name}.yaml").read_text())
        settings["health"] = {"host": "127.0.0.1", "port": port}
        if name == "runtime-api":
            settings["httpAddr"] = f"127.0.0.1:{api_port}"
        file = product.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(settings))
        access = Access(product.admin.url, product.admin.ca_file, product.tokens[name])
        kubeconfig = access.write_kubeconfig(product.folder / f"{name}.kubeconfig")
        command = [
            sys.executable,
            "-m",
            "gpu_runtime.cli",
            name,
            "--config",
            str(file),
            "--kubeconfig",
            str(kubeconfig),
        ]
        product.processes[name] = Process(name, command, product.folder / f"{name}.log")
        wait_until(lambda port=port: _ready(port), f"{name} is ready", [product.processes[name]])  # type: ignore[misc]


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _install(plane: ControlPlane) -> None:
    """Our kinds, namespaces and priority classes, and nodes on which pods run without a machine."""
    kubectl = [str(binaries.ensure("kubectl")["kubectl"]), "--kubeconfig", str(plane.kubeconfig)]
    for arguments in (
        ("apply", "-k", CONFIG / "crd"),
        ("wait", "-f", CONFIG / "crd" / "bases", "--for=condition=Established", "--timeout=120s"),
        ("apply", "-k", CONFIG / "default"),
    ):
        subprocess.run([*kubectl, *map(str, arguments)], check=True, capture_output=True)
    for kind in KINDS:  # established or not, the server asks for patience until a new kind's storage is ready
        wait_until(lambda kind=kind: plane.admin.request("GET", kind).status == 200, f"{kind} is served")  # type: ignore[misc]
    for number in range(NODES):
        name = f"fake-{number}"
        meta = {"name": name, "annotations": FAKE_NODE, "labels": {"kubernetes.io/hostname": name}}
        node = {"metadata": meta, "status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
        plane.admin.request("POST", "/api/v1/nodes", node)
    wait_until(lambda: all(_node_ready(plane.admin, number) for number in range(NODES)), "the fake nodes are Ready")


def _node_ready(admin: Access, number: int) -> bool:
    conditions = admin.request("GET", f"/api/v1/nodes/fake-{number}").body["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _usage(pid: int) -> Usage:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage((int(times[11]) + int(times[12])) / TICKS, pages * PAGE / 2**20)
