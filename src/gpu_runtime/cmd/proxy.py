"""The proxy: HTTP access to units. Any number of replicas."""

from __future__ import annotations

from pathlib import Path

import uvloop

from gpu_runtime import logs
from gpu_runtime.api.rbac import Permissions, Rule
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.config import ProxySettings
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.process import stop_on_signal
from gpu_runtime.proxy.server import Proxy

PROCESS = "proxy"

PERMISSIONS = Permissions(
    PROCESS,
    cluster=(
        Rule(GROUP, ("gpuunits",), ("list", "watch")),
        Rule("discovery.k8s.io", ("endpointslices",), ("list", "watch")),
    ),
)


def run(settings: ProxySettings, kubeconfig: Path | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then ends the requests that it has; the exit code."""
    logs.configure(settings.log.level)
    uvloop.run(_main(settings, kubeconfig))
    return 0


async def _main(settings: ProxySettings, kubeconfig: Path | None) -> None:
    async with Client(load_config(kubeconfig), user_agent=f"gpu-runtime-{PROCESS}") as client:
        with stop_on_signal() as stop:
            await Proxy(client, settings).run(stop)
