"""Writes the settings file of each process: the user's settings, plus the ports and addresses of this installation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_runtime.cmd.process import Process
from gpu_runtime.cmd.up.broker import BROKER, URL_IN_PODS, LocalBroker
from gpu_runtime.cmd.up.layout import LOOPBACK, Ports
from gpu_runtime.config.loading import read
from gpu_runtime.errors import ConfigError
from gpu_runtime.supervisor.files import write_private
from gpu_runtime.supervisor.folder import Folder

HEADER = "# Written by `gpu-runtime up` at every start. Settings of your own: gpu-runtime up --config DIR\n"


def overrides(
    process: Process, ports: Ports, broker: LocalBroker | None = None, *, own_cluster: bool = False
) -> dict[str, Any]:
    """Settings that `up` decides. `own_cluster`: `up` starts the embedded cluster, so it is not shared."""
    ours: dict[str, Any] = {"health": {"host": LOOPBACK, "port": ports.health[process.name]}}
    if process.http:
        ours["httpAddr"] = f"{LOOPBACK}:{ports.http[process.name]}"
    if process.lease:
        # On the embedded cluster `up` ends the old process before it starts a new one, so no election is needed and no
        # start waits for an old Lease to expire. Any other cluster may already run this process, and two leaders
        # would undo each other's writes.
        ours["leaderElection"] = {"enabled": not own_cluster}
    if broker is not None and process.broker:
        ours["nats"] = broker.settings(process.name)
    if broker is not None and process.signs_workers:
        ours["signingKeyFile"] = str(broker.files.signing_key)
    ours = merged(ours, process.settings_on_one_machine())
    urls = {**ports.urls(), BROKER: URL_IN_PODS if broker is not None and own_cluster else ""}
    return merged(ours, process.up.settings(urls)) if process.up is not None else ours


def names_broker(processes: Iterable[Process], given: Path | None) -> bool:
    """Whether the user's settings name a broker: then `up` runs none."""
    files = [_given(process, given) for process in processes if process.broker] if given is not None else []
    return any(isinstance(nats := file.get("nats"), dict) and nats.get("url") for file in files)


def write_settings(
    folder: Folder,
    processes: Iterable[Process],
    given: Path | None,
    ports: Ports,
    broker: LocalBroker | None = None,
    *,
    database: Path | None = None,
    own_cluster: bool = False,
) -> dict[str, Path]:
    """Writes and validates the settings file of each process. ConfigError names the wrong key.

    `database` is the file for results, unless the user's settings name a database.
    """
    written = {}
    for process in processes:
        base = _given(process, given) if given is not None else {}
        if database is not None and process.results:
            base = merged({"results": {"database": f"sqlite:///{database}"}}, base)
        ours = overrides(process, ports, broker, own_cluster=own_cluster)
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
    """A deep merge: values of `over` replace those of `base`, at any depth."""
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def _given(process: Process, folder: Path) -> dict[str, Any]:
    """The user's settings of the process; empty when the folder has no file for it."""
    path = folder / f"{process.name}.yaml"
    return read(path) if path.exists() else {}
