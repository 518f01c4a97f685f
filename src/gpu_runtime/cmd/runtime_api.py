"""The runtime-api: REST API, Swagger, and the work that belongs to them. Any number of replicas."""

from __future__ import annotations

from gpu_runtime.api.rbac import READ, Permissions, Rule
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.config import RuntimeApiSettings
from gpu_runtime.http.server import RuntimeApi
from gpu_runtime.kube.process import ProcessContext

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


async def main(settings: RuntimeApiSettings, process: ProcessContext) -> None:
    async with process.kubernetes() as client:
        api = RuntimeApi(client, settings)
        process.health.add(api.manager.checks, api.manager.metrics.registry)
        await api.run(process.stop)
