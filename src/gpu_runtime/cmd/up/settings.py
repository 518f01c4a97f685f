"""The settings file of each process: a person's own, with the ports and addresses of this installation in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_runtime.cmd.process import Process
from gpu_runtime.cmd.up.layout import LOOPBACK, Ports
from gpu_runtime.config.loading import read
from gpu_runtime.errors import ConfigError
from gpu_runtime.supervisor.files import write_private
from gpu_runtime.supervisor.folder import Folder

HEADER = "# Written by `gpu-runtime up` at every start. Settings of your own: gpu-runtime up --config DIR\n"


def overrides(process: Process, ports: Ports, *, own_cluster: bool = False) -> dict[str, Any]:
    """What only this installation knows; `own_cluster` is the embedded one that `up` starts itself."""
    ours: dict[str, Any] = {"health": {"host": LOOPBACK, "port": ports.health[process.name]}}
    if process.http:
        ours["httpAddr"] = f"{LOOPBACK}:{ports.http[process.name]}"
    if process.lease:
        # On the cluster that `up` starts, a process has ended before the next one starts: it need not wait for a lease
        # to expire. Any other cluster may already run this process, and two leaders would undo each other's writes.
        ours["leaderElection"] = {"enabled": not own_cluster}
    ours = merged(ours, process.settings_on_one_machine())
    return merged(ours, process.up.settings(ports.urls())) if process.up is not None else ours


def write_settings(
    folder: Folder, processes: Iterable[Process], given: Path | None, ports: Ports, *, own_cluster: bool = False
) -> dict[str, Path]:
    """The file of each process, written and checked; ConfigError names the key that is wrong."""
    written = {}
    for process in processes:
        base = _given(process, given) if given is not None else {}
        ours = overrides(process, ports, own_cluster=own_cluster)
        text = HEADER + yaml.safe_dump(merged(base, ours), sort_keys=False)
        path = folder.config(process.name)
        write_private(path, text.encode())
        settings = process.load_settings(path, os.environ)
        if process.lease and not own_cluster and not settings.leaderElection.enabled:
            raise ConfigError(
                "leaderElection.enabled: the environment switches it off; with --kubeconfig it must be on: another "
                f"{process.name} may run on that cluster"
            )
        written[process.name] = path
    return written


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what `over` says in its place, at any depth."""
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def _given(process: Process, folder: Path) -> dict[str, Any]:
    """A person's own settings of the process; none when the folder has no file of its name."""
    path = folder / f"{process.name}.yaml"
    return read(path) if path.exists() else {}
