"""The settings file of each process: a person's own, with the ports and addresses of this installation in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_runtime.cmd.up.layout import LOOPBACK, Ports, proxy_url
from gpu_runtime.config import PROCESSES, ConfigError, ControllerManagerSettings, load
from gpu_runtime.config.proxy import EMBEDDED_REFUSED_CIDRS
from gpu_runtime.local.files import write_private
from gpu_runtime.local.supervisor.folder import Folder

HEADER = "# Written by `gpu-runtime up` at every start. Settings of your own: gpu-runtime up --config DIR\n"


def overrides(ports: Ports, *, own_cluster: bool = False) -> dict[str, dict[str, Any]]:
    """What only this installation knows, by process; `own_cluster` is the embedded one that `up` starts itself."""
    return {
        "controller-manager": {
            "health": {"host": LOOPBACK, "port": ports.controllerManagerHealth},
            # The cluster that `up` starts has one controller-manager, which has ended before the next one starts: it
            # need not wait for a lease to expire. Any other cluster may already have a controller-manager, and two at
            # once would undo each other's writes for ever.
            "leaderElection": {"enabled": not own_cluster},
            "units": {"accessURL": proxy_url(ports) + "/units/{namespace}/{name}/"},
        },
        "runtime-api": {
            "health": {"host": LOOPBACK, "port": ports.runtimeApiHealth},
            "httpAddr": f"{LOOPBACK}:{ports.api}",
        },
        "proxy": {
            "health": {"host": LOOPBACK, "port": ports.proxyHealth},
            "httpAddr": f"{LOOPBACK}:{ports.proxy}",
            "refusedCIDRs": list(EMBEDDED_REFUSED_CIDRS),
        },
    }


def write_settings(folder: Folder, given: Path | None, ports: Ports, *, own_cluster: bool = False) -> dict[str, Path]:
    """The file of each process, written and checked; ConfigError names the key that is wrong."""
    written = {}
    for process, ours in overrides(ports, own_cluster=own_cluster).items():
        base = _read(given / f"{process}.yaml") if given is not None else {}
        text = HEADER + yaml.safe_dump(merged(base, ours), sort_keys=False)
        path = folder.config(process)
        write_private(path, text.encode())
        settings = load(PROCESSES[process], path, os.environ)
        if isinstance(settings, ControllerManagerSettings) and not (own_cluster or settings.leaderElection.enabled):
            raise ConfigError(
                "leaderElection.enabled: the environment switches it off; with --kubeconfig it must be on: another "
                "controller-manager may run on that cluster"
            )
        written[process] = path
    return written


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what `over` says in its place, at any depth."""
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict | None):
        raise ConfigError(f"{path}: must hold keys and values")
    return document or {}
