"""The runtime-api: REST API, Swagger, and the work that belongs to them. Any number of replicas."""

from __future__ import annotations

from pathlib import Path

import uvloop

from gpu_runtime import logs
from gpu_runtime.api.rbac import READ, Permissions, Rule
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.config import RuntimeApiSettings
from gpu_runtime.http.server import RuntimeApi
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.process import stop_on_signal

PROCESS = "runtime-api"

PERMISSIONS = Permissions(
    PROCESS,
    cluster=(
        Rule(GROUP, ("stockpools",), (*READ, "create", "patch", "delete")),
        Rule(GROUP, ("gpuunits",), (*READ, "create", "patch", "delete")),
        Rule("", ("nodes", "namespaces"), READ),
        Rule("", ("pods",), ("list",)),
        Rule("", ("pods/log",), ("get",)),
        Rule("", ("events",), ("list",)),
    ),
    namespaces={SYSTEM_NAMESPACE: (Rule(GROUP, ("operations",), (*READ, "create", "update", "delete")),)},
)


def run(settings: RuntimeApiSettings, kubeconfig: Path | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then ends the requests that it has; the exit code."""
    logs.configure(settings.log.level)
    uvloop.run(_main(settings, kubeconfig))
    return 0


async def _main(settings: RuntimeApiSettings, kubeconfig: Path | None) -> None:
    async with Client(load_config(kubeconfig), user_agent=f"gpu-runtime-{PROCESS}") as client:
        with stop_on_signal() as stop:
            await RuntimeApi(client, settings).run(stop)
