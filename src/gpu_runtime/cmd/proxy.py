"""The proxy: gives clients HTTP access to units and to the files of storages. Any number of replicas."""

from __future__ import annotations

from gpu_runtime.config import ProxySettings
from gpu_runtime.kube.process import ProcessContext
from gpu_runtime.proxy.server import Proxy


async def main(settings: ProxySettings, process: ProcessContext) -> None:
    async with process.kubernetes() as client:
        proxy = Proxy(client, settings)
        process.health.add(proxy.manager.checks, proxy.manager.metrics.registry)
        await proxy.run(process.stop)
