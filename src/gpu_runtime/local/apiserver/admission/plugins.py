"""The admission plugins that affect our workloads, in the order of the real server."""

from __future__ import annotations

from gpu_runtime.local.apiserver.admission import Plugin
from gpu_runtime.local.apiserver.admission.lifecycle import NamespaceLifecycle
from gpu_runtime.local.apiserver.admission.objects import DefaultStorageClass, StorageProtection, TaintNewNodes
from gpu_runtime.local.apiserver.admission.pods import DefaultTolerations, Priority, RuntimeClass, ServiceAccounts
from gpu_runtime.local.apiserver.admission.quota import ResourceQuotas
from gpu_runtime.local.apiserver.environment import Environment


def standard_plugins(environment: Environment) -> list[Plugin]:
    return [
        NamespaceLifecycle(),
        ServiceAccounts(environment),
        TaintNewNodes(),
        Priority(),
        DefaultTolerations(),
        DefaultStorageClass(),
        StorageProtection(),
        RuntimeClass(),
        ResourceQuotas(),
    ]
