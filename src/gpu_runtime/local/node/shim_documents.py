"""The documents that a pod's shim reads, computed from the spec and from what this machine allows. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from gpu_runtime.local.node import isolated_python
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.hidden import Hidden, ShownFolder
from gpu_runtime.local.node.network import PodNetwork
from gpu_runtime.local.node.records import PodFiles, PodRecord
from gpu_runtime.local.node.shim import shapes
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.specs import ContainerSpec, PodSpec

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MACHINE_SHM = "/dev/shm"  # noqa: S108 (where programs expect it)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one container that its spec does not set."""

    logBytes: int = 10 * 1024**2
    logFiles: int = 5
    openFiles: int = 65536
    processes: int = 4096
    memoryScratch: int = 2 * 1024**3


def hostname(spec: PodSpec) -> str:
    return (spec.hostname or spec.name)[:63].rstrip("-.")


def sandbox_document(
    files: PodFiles, record: PodRecord, capabilities: Capabilities, network: PodNetwork, limits: Limits
) -> shapes.Sandbox:
    """The pod's namespaces, network and memory volumes."""
    spec = record.spec
    namespaces = capabilities.namespaces
    if spec.hostNetwork:
        namespaces &= ~sys_.CLONE_NEWNET
    link: shapes.Network | None = None
    if capabilities.network == "bridge" and not spec.hostNetwork:
        link = {
            "bridge": network.bridge,
            "link": record.link,
            "address": record.address,
            "prefix": network.prefix,
            "gateway": network.gateway,
        }
    forwarded = capabilities.network == "isolated" and not spec.hostNetwork
    return {
        "hostname": hostname(spec),
        "namespaces": namespaces,
        "root": capabilities.root,
        "scratch": capabilities.scratch,
        "scratchSize": limits.memoryScratch,
        "memory": [{"path": str(files.volume(name)), "size": size} for name, size in spec.memoryVolumes.items()],
        "network": link,
        "forwards": [{"listen": record.address, "port": port} for port in spec.ports] if forwarded else [],
        "userxattr": capabilities.user_namespace,
    }


def environment(spec: ContainerSpec, pod: PodSpec, extra: Mapping[str, str]) -> dict[str, str]:
    """The container's own variables over the defaults; `python` is always found, last on PATH."""
    variables = {
        "PATH": SYSTEM_PATH,
        "HOSTNAME": hostname(pod),
        "HOME": "/root" if spec.user == 0 else "/",
        **extra,
        **spec.env,
    }
    # The real path, which pods see: a link to it may lie in a hidden folder.
    variables["PATH"] += os.pathsep + str(Path(sys.executable).parent.resolve())
    return variables


def container_document(
    files: PodFiles,
    pod: PodSpec,
    spec: ContainerSpec,
    capabilities: Capabilities,
    limits: Limits,
    *,
    hidden: Hidden,
    shown: Iterable[ShownFolder],
    variables: Mapping[str, str],
    devices: Iterable[str],
    cgroups: Iterable[str],
) -> shapes.Container:
    """One run of one container, everything resolved."""
    mounts: list[shapes.Mount] = [
        {
            "source": mount.source,
            "target": mount.target,
            "readOnly": mount.readOnly,
            "subPath": mount.subPath,
            "ofMachine": mount.ofMachine,
        }
        for mount in spec.mounts
    ]
    if capabilities.root == "machine":
        # The machine's own shared memory serves as well as a pod's.
        mounts = [mount for mount in mounts if mount["target"] != MACHINE_SHM]
    else:
        source = str(files.run(spec.name, spec.attempt) / "termination-log")
        mounts.append(
            {
                "source": source,
                "target": spec.terminationPath,
                "readOnly": False,
                "subPath": "",
                "ofMachine": False,
            }
        )
    privileged = capabilities.namespaces and not capabilities.user_namespace
    return {
        "name": spec.name,
        "attempt": spec.attempt,
        "command": list(spec.command),
        "env": environment(spec, pod, variables),
        "workingDir": spec.workingDir or "/",
        "stdin": spec.stdin,
        "stdinOnce": spec.stdinOnce,
        "tty": spec.tty,
        "mounts": mounts,
        "homes": hidden.homes,
        "masked": hidden.masked,
        "shown": [{"path": each.path, "writable": each.writable} for each in shown],
        "kept": isolated_python.needed_directories(),
        "devices": list(devices),
        "readOnlyRoot": spec.readOnlyRoot,
        "user": spec.user,
        "group": spec.group,
        "groups": list(spec.groups),
        "capabilities": list(spec.capabilities),
        "seccomp": spec.seccomp,
        "cgroups": list(cgroups),
        "openFiles": limits.openFiles,
        # The kernel does not count root's processes: for root only the cgroup is a limit.
        "processes": 0 if privileged else limits.processes,
        "terminationPath": spec.terminationPath,
        "logBytes": limits.logBytes,
        "logFiles": limits.logFiles,
    }
