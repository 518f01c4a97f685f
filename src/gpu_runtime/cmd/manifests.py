"""Generates files under config/ and docs/ from the declarations of the processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from gpu_runtime.api.manifests import PREFIX, Files
from gpu_runtime.api.rbac import Manifest
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.cmd.process import InCluster, Process
from gpu_runtime.cmd.up.settings import merged
from gpu_runtime.config import show
from gpu_runtime.edge.names import split_address

FOLDER = "/etc/gpu-runtime"
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  a Pod is reachable only at its own address
USER = 65532
LOCAL = """\
# The settings of {name} on one machine: every key, with its default where one machine needs no other value.
# Each key may also come from the environment: {variable}=debug.
# `gpu-runtime config show {name}` prints what is in force.
"""


def process_manifests(processes: Iterable[Process]) -> Files:
    """The Deployments, ConfigMaps and Services of the processes, by path under config/."""
    deployed = [(process, process.cluster) for process in _sorted(processes) if process.cluster is not None]
    return {
        "manager/manager.yaml": [_deployment(process, place) for process, place in deployed],
        "manager/process_config.yaml": [_config_map(process, place) for process, place in deployed],
        "manager/services.yaml": [_service(process) for process, _ in deployed],
    }


def local_settings(processes: Iterable[Process]) -> Mapping[str, str]:
    """The settings file of each process for a single machine, by path under config/."""
    files = {}
    for process in processes:
        variable = f"GPU_RUNTIME_{process.name.replace('-', '_').upper()}_LOG_LEVEL"
        settings = merged(_defaults(process), process.settings_on_one_machine())
        header = LOCAL.format(name=process.name, variable=variable)
        files[f"local/{process.name}.yaml"] = header + yaml.safe_dump(settings, sort_keys=False)
    return files


def table(processes: Iterable[Process]) -> str:
    """A Markdown table of the processes, for docs/processes.md."""
    rows = [("process", "command", "HTTP", "health", "Kubernetes", "in `up`", "replicas in a cluster")]
    for process in _sorted(processes):
        http, health = _ports(process)
        elected = ", one of which leads" if process.lease else ""
        rows.append(
            (
                f"`{process.name}`",
                process.summary,
                str(http or ""),
                str(health),
                f"as `{PREFIX}-{process.name}`" if process.kubernetes else "",
                "yes" if process.up is not None else "",
                f"{process.cluster.replicas}{elected}" if process.cluster is not None else "",
            )
        )
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


def _sorted(processes: Iterable[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: process.name)


def _defaults(process: Process) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(show(process.load_settings(None, {})))
    return found


def _ports(process: Process) -> tuple[int, int]:
    """The HTTP port (0 if the process serves no HTTP) and the health port, from the default settings."""
    settings = process.load_settings(None, {})
    return split_address(settings.httpAddr)[1] if process.http else 0, settings.health.port


def _labels(process: Process) -> dict[str, str]:
    return {"app.kubernetes.io/name": PREFIX, "app.kubernetes.io/component": process.name}


def _metadata(process: Process, name: str = "") -> Manifest:
    return {"name": name or process.name, "namespace": SYSTEM_NAMESPACE, "labels": _labels(process)}


def _config_map(process: Process, place: InCluster) -> Manifest:
    http, health = _ports(process)
    settings: dict[str, Any] = {"health": {"host": ALL_ADDRESSES, "port": health}}
    if process.http:
        settings["httpAddr"] = f"{ALL_ADDRESSES}:{http}"
        namespaced = f"{process.name}.{SYSTEM_NAMESPACE}"
        settings["allowedHosts"] = [process.name, namespaced, f"{namespaced}.svc", f"{namespaced}.svc.cluster.local"]
    if process.lease:
        settings["leaderElection"] = {"enabled": True}
    text = yaml.safe_dump(merged(settings, place.settings), sort_keys=False)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(process),
        "data": {f"{process.name}.yaml": text},
    }


def _deployment(process: Process, place: InCluster) -> Manifest:
    labels = _labels(process)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(process),
        "spec": {
            "replicas": place.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(process, place)},
        },
    }


def _pod(process: Process, place: InCluster) -> Manifest:
    secrets = [{"name": folder, "secret": {"secretName": secret}} for folder, secret in place.secrets.items()]
    return {
        "serviceAccountName": f"{PREFIX}-{process.name}",
        **({} if process.kubernetes else {"automountServiceAccountToken": False}),
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(process, place)],
        "volumes": [{"name": "config", "configMap": {"name": process.name}}, *secrets],
    }


def _container(process: Process, place: InCluster) -> Manifest:
    http, health = _ports(process)
    ports = [{"name": "http", "containerPort": http}] if process.http else []
    folders = [("config", FOLDER), *((folder, f"{FOLDER}/{folder}") for folder in place.secrets)]
    return {
        "name": process.name,
        "image": f"{PREFIX}:dev",
        "command": [PREFIX, process.name, "--config", f"{FOLDER}/{process.name}.yaml"],
        "ports": [*ports, {"name": "health", "containerPort": health}],
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=20),
        "readinessProbe": _probe("/readyz", periodSeconds=5),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in folders],
    }


def _probe(path: str, **timing: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "health"}, **timing}


def _service(process: Process) -> Manifest:
    """The Service of a process: the HTTP port for clients, and metrics. Without HTTP it has only the metrics port."""
    http, health = _ports(process)
    ports: list[Manifest] = [{"name": "metrics", "port": health, "targetPort": "health"}]
    if process.http:
        ports.insert(0, {"name": "http", "port": http, "targetPort": "http"})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(process, "" if process.http else f"{process.name}-metrics"),
        "spec": {"selector": _labels(process), "ports": ports},
    }
