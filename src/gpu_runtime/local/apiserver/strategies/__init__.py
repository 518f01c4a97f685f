"""The rules of the built-in kinds."""

from __future__ import annotations

from gpu_runtime.local.apiserver.strategies.cluster_kinds import NamespaceStrategy, NodeStrategy
from gpu_runtime.local.apiserver.strategies.definitions import DefinitionStrategy
from gpu_runtime.local.apiserver.strategies.jobs import JobStrategy
from gpu_runtime.local.apiserver.strategies.plain import (
    ConfigMapStrategy,
    EventStrategy,
    LeaseStrategy,
    PriorityClassStrategy,
    QuotaStrategy,
    SecretStrategy,
)
from gpu_runtime.local.apiserver.strategies.pods import PodStrategy
from gpu_runtime.local.apiserver.strategies.services import ServiceStrategy
from gpu_runtime.local.apiserver.strategies.storage import ClaimStrategy, StorageClassStrategy, VolumeStrategy
from gpu_runtime.local.apiserver.strategies.stored import (
    BindingStrategy,
    BudgetStrategy,
    EndpointSliceStrategy,
    NetworkPolicyStrategy,
    RoleStrategy,
    ServiceAccountStrategy,
)
from gpu_runtime.local.apiserver.strategies.workloads import DeploymentStrategy, ReplicaSetStrategy
from gpu_runtime.local.apiserver.strategy import Strategy

_RBAC = "rbac.authorization.k8s.io"

STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "configmaps"): ConfigMapStrategy(),
    ("", "events"): EventStrategy(),
    ("", "namespaces"): NamespaceStrategy(),
    ("", "nodes"): NodeStrategy(),
    ("", "persistentvolumeclaims"): ClaimStrategy(),
    ("", "persistentvolumes"): VolumeStrategy(),
    ("", "pods"): PodStrategy(),
    ("", "resourcequotas"): QuotaStrategy(),
    ("", "secrets"): SecretStrategy(),
    ("", "serviceaccounts"): ServiceAccountStrategy(),
    ("", "services"): ServiceStrategy(),
    ("apps", "deployments"): DeploymentStrategy(),
    ("apps", "replicasets"): ReplicaSetStrategy(),
    ("batch", "jobs"): JobStrategy(),
    ("networking.k8s.io", "networkpolicies"): NetworkPolicyStrategy(),
    ("discovery.k8s.io", "endpointslices"): EndpointSliceStrategy(),
    ("coordination.k8s.io", "leases"): LeaseStrategy(),
    ("storage.k8s.io", "storageclasses"): StorageClassStrategy(),
    ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy(),
    ("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
    ("policy", "poddisruptionbudgets"): BudgetStrategy(),
    (_RBAC, "roles"): RoleStrategy(),
    (_RBAC, "clusterroles"): RoleStrategy(),
    (_RBAC, "rolebindings"): BindingStrategy(),
    (_RBAC, "clusterrolebindings"): BindingStrategy(),
}
