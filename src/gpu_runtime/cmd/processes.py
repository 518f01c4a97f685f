"""All processes of the product, in the order in which `up` lists them. To add a process, declare it here."""

from __future__ import annotations

from gpu_runtime.api.rbac import LEADER_ELECTION_LEASE, READ, Rule
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.cmd.process import InCluster, InUp, Process

CONTROLLER_MANAGER = Process(
    name="controller-manager",
    summary="Run the reconcilers.",
    main="gpu_runtime.cmd.controller_manager:main",
    settings="gpu_runtime.config.controller_manager:ControllerManagerSettings",
    lease=LEADER_ELECTION_LEASE,
    rules=(
        Rule(GROUP, ("stockpools",), (*READ, "delete")),
        Rule(GROUP, ("gpuunits",), (*READ, "patch", "delete")),
        Rule(GROUP, ("gpustorages",), (*READ, "patch")),
        Rule(GROUP, ("operations",), ("list", "watch")),
        Rule(GROUP, ("stockpools/status", "gpuunits/status", "gpustorages/status"), ("update",)),
        # Needed to set `blockOwnerDeletion` in owner references, on clusters with OwnerReferencesPermissionEnforcement.
        Rule(GROUP, ("stockpools/finalizers", "gpuunits/finalizers", "gpustorages/finalizers"), ("update",)),
        Rule("apps", ("deployments",), (*READ, "create", "patch", "delete")),
        Rule("apps", ("replicasets",), ("list", "watch")),
        Rule("", ("services",), (*READ, "create", "patch", "delete")),
        Rule("networking.k8s.io", ("networkpolicies",), (*READ, "create", "patch", "delete")),
        Rule("", ("pods",), ("list", "watch")),
        Rule("", ("pods/log",), ("get",)),
        Rule("batch", ("jobs",), (*READ, "create", "patch", "delete")),
        Rule("", ("persistentvolumeclaims",), (*READ, "create", "patch", "delete")),
        Rule("storage.k8s.io", ("storageclasses",), ("list", "watch")),
        Rule("", ("events",), ("list", "create", "patch")),
        Rule("", ("namespaces",), ("get",)),
        Rule("scheduling.k8s.io", ("priorityclasses",), ("get",)),
    ),
    up=InUp(
        settings=lambda urls: {
            "units": {"accessURL": urls["proxy"] + "/units/{namespace}/{name}/"},
            "storage": {"accessURL": urls["proxy"] + "/storages/{namespace}/{name}/"},
            **({"serverless": {"brokerURL": urls["broker"]}} if urls["broker"] else {}),
        }
    ),
    cluster=InCluster(),
)

RUNTIME_API = Process(
    name="runtime-api",
    summary="Run the REST API.",
    main="gpu_runtime.cmd.runtime_api:main",
    settings="gpu_runtime.config.runtime_api:RuntimeApiSettings",
    http=True,
    rules=(
        Rule(GROUP, ("stockpools",), (*READ, "create", "patch", "delete")),
        Rule(GROUP, ("gpuunits", "gpustorages", "gpufunctions"), (*READ, "create", "patch", "delete")),
        Rule("storage.k8s.io", ("storageclasses",), ("get",)),
        Rule("", ("nodes", "namespaces"), READ),
        Rule("", ("pods",), ("list",)),
        Rule("", ("pods/log",), ("get",)),
        Rule("", ("events",), ("list",)),
    ),
    namespaced_rules={SYSTEM_NAMESPACE: (Rule(GROUP, ("operations",), (*READ, "create", "update", "delete")),)},
    up=InUp(port=0, variable="GPU_RUNTIME_URL", pages={"API": "/api/v1", "Swagger": "/swagger/index.html"}),
    cluster=InCluster(
        settings={"tokenFile": "/etc/gpu-runtime/tokens/tokens"}, secrets={"tokens": "runtime-api-tokens"}
    ),
)

PROXY = Process(
    name="proxy",
    summary="Run the proxy to units and to the files of storages.",
    main="gpu_runtime.cmd.proxy:main",
    settings="gpu_runtime.config.proxy:ProxySettings",
    local_settings="gpu_runtime.config.proxy:LOCAL_SETTINGS",
    http=True,
    rules=(
        Rule(GROUP, ("gpuunits", "gpustorages"), ("list", "watch")),
        Rule("discovery.k8s.io", ("endpointslices",), ("list", "watch")),
    ),
    # Users see this port in links: 8090 by default, next to 8080 of the API.
    up=InUp(port=10, variable="GPU_RUNTIME_UNITS_URL", pages={"Units": "/units/NAMESPACE/NAME/"}),
)

ACTIVATOR = Process(
    name="activator",
    summary="Run the activator: starts and stops the workers of serverless functions.",
    main="gpu_runtime.cmd.activator:main",
    settings="gpu_runtime.config.activator:ActivatorSettings",
    lease="activator.lokiwager.io",
    rules=(
        Rule(GROUP, ("gpufunctions",), (*READ, "patch")),
        Rule(GROUP, ("gpufunctions/status", "gpufunctions/finalizers"), ("update",)),
        Rule(GROUP, ("gpuunits",), (*READ, "create", "patch", "delete")),
        Rule("", ("configmaps",), (*READ, "create", "delete")),
        # No list and no watch: it reads only the Secrets that it made itself.
        Rule("", ("secrets",), ("get", "create", "patch", "delete")),
        Rule("", ("nodes", "namespaces"), READ),
        Rule("", ("events",), ("create", "patch")),
    ),
    namespaced_rules={SYSTEM_NAMESPACE: (Rule(GROUP, ("operations",), (*READ, "create", "update", "delete")),)},
    up=InUp(),
    cluster=InCluster(),
)

WORKER = Process(
    name="worker",
    summary="Run the invocations of a serverless function, beside the user's framework.",
    main="gpu_runtime.cmd.worker:main",
    settings="gpu_runtime.config.worker:WorkerSettings",
    kubernetes=False,
)

RESULT_STORE = Process(
    name="result-store",
    summary="Run the store of results of invocations.",
    main="gpu_runtime.cmd.result_store:main",
    settings="gpu_runtime.config.result_store:ResultStoreSettings",
    kubernetes=False,
    up=InUp(),
    cluster=InCluster(),
)

PROCESSES = {
    process.name: process for process in (CONTROLLER_MANAGER, RUNTIME_API, ACTIVATOR, RESULT_STORE, PROXY, WORKER)
}
