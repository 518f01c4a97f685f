"""The proxy: HTTP access to units. Any number of replicas."""

from __future__ import annotations

from gpu_runtime.api.rbac import Permissions, Rule
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.config import ProxySettings
from gpu_runtime.kube.process import ProcessContext
from gpu_runtime.proxy.server import Proxy

PROCESS = "proxy"

PERMISSIONS = Permissions(
    PROCESS,
    cluster=(
        Rule(GROUP, ("gpuunits",), ("list", "watch")),
        Rule("discovery.k8s.io", ("endpointslices",), ("list", "watch")),
    ),
)


async def main(settings: ProxySettings, process: ProcessContext) -> None:
    async with process.kubernetes() as client:
        proxy = Proxy(client, settings)
        process.health.add(proxy.manager.checks, proxy.manager.metrics.registry)
        await proxy.run(process.stop)
