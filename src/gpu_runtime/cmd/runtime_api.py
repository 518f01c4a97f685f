"""The runtime-api: serves the REST API and Swagger, and runs their background work. Any number of replicas."""

from __future__ import annotations

from gpu_runtime.config import RuntimeApiSettings
from gpu_runtime.http.server import RuntimeApi
from gpu_runtime.kube.process import ProcessContext


async def main(settings: RuntimeApiSettings, process: ProcessContext) -> None:
    async with process.kubernetes() as client:
        api = RuntimeApi(client, settings)
        process.health.add(api.manager.checks, api.manager.metrics.registry)
        if api.services.optional_serverless is not None:
            process.health.warn(api.services.optional_serverless.warnings)
        await api.run(process.stop)
