"""What this machine allows: probed once at start. It decides how pods are isolated."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

import msgspec

from gpu_runtime.local.node import isolated_python, network
from gpu_runtime.local.node.network import NoSubnet
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.netlink import Netlink
from gpu_runtime.local.node.shim.probe import SPACES
from gpu_runtime.local.node.shim.shapes import RootMode


class Probed(msgspec.Struct, frozen=True):
    """The result of the probe: the error of each feature, empty when the feature works."""

    base: int
    refused: dict[str, str]
    bridge: str
    disk: str
    memory: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """How pods are isolated here. `notes` says what is missing and what follows from it."""

    namespaces: int
    root: RootMode
    scratch: Literal["disk", "memory"]
    network: Literal["bridge", "isolated", "machine"]
    notes: list[str]

    @property
    def user_namespace(self) -> bool:
        return bool(self.namespaces & sys_.CLONE_NEWUSER)

    def describe(self) -> list[str]:
        """For a person at the terminal: what pods get, then what they do not."""
        roots = {
            "overlay": "this machine's file system under a layer of the pod's own"
            + (" (in memory)" if self.scratch == "memory" else ""),
            "bind": "this machine's file system, read-only below /",
            "machine": "none",
        }
        networks = {
            "bridge": "own address on a bridge",
            "isolated": "own network namespace, declared ports forwarded",
            "machine": "the machine's own network",
        }
        spaces = [name for name, flag in SPACES.items() if self.namespaces & flag]
        return [
            f"namespaces: {', '.join(spaces) or 'none'}" + (" (in a user namespace)" if self.user_namespace else ""),
            f"pod file system: {roots[self.root]}",
            f"pod network: {networks[self.network]}",
            *self.notes,
        ]


def decide(probed: Probed) -> Capabilities:
    """The strongest isolation out of what the probe found. Pure."""
    notes: list[str] = []
    allowed = {name: flag for name, flag in SPACES.items() if not probed.refused[name]}
    if "mount" not in allowed or "pid" not in allowed:
        # Without both there is no root of its own and no fresh /proc: half of it would only look isolated.
        notes.append(
            f"no mount and pid namespaces ({probed.refused['mount'] or probed.refused['pid']}): pods are plain"
            " processes that see all of this user's files, the cluster's too; no mountPath is made, no port used twice"
        )
        return Capabilities(namespaces=0, root="machine", scratch="disk", network="machine", notes=notes)
    flags = probed.base
    for name, flag in allowed.items():
        if name != "net":
            flags |= flag
    root: RootMode = "overlay" if not (probed.disk and probed.memory) else "bind"
    scratch: Literal["disk", "memory"] = "memory" if probed.disk and not probed.memory else "disk"
    if root == "bind":
        notes.append(f"no overlay file system ({probed.disk}): pods cannot write below this machine's own directories")
    elif scratch == "memory":
        notes.append(f"no overlay with its layer on disk ({probed.disk}): what pods write is kept in memory")
    net: Literal["bridge", "isolated", "machine"] = "machine"
    if "net" in allowed and not probed.bridge:
        net = "bridge"
    elif "net" in allowed and probed.base:
        net = "isolated"
        notes.append(f"no bridge ({probed.bridge}): pods are reached by their declared ports and cannot call out")
    else:
        notes.append(f"no pod network ({probed.refused['net'] or probed.bridge}): two pods cannot use one port")
    if net != "machine":
        flags |= allowed["net"]
    return Capabilities(namespaces=flags, root=root, scratch=scratch, network=net, notes=notes)


def probe(data_dir: Path) -> Probed:
    """Asks the kernel, in processes that leave nothing behind."""
    command = isolated_python.command("gpu_runtime.local.node.shim.probe", str(data_dir))
    answer = subprocess.run(command, check=True, capture_output=True, cwd="/")
    probed = msgspec.json.decode(answer.stdout, type=Probed)
    if not probed.bridge:
        try:
            with Netlink() as netlink:
                network.free_subnet(netlink)
        except (NoSubnet, OSError) as error:
            return msgspec.structs.replace(probed, bridge=str(error))
    return probed
