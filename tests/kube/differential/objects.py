"""Valid objects of every kind that cases start from; `changed` makes the wrong ones."""

from __future__ import annotations

import copy
from collections.abc import Callable

from kube.differential.call import Json
from kube.differential.filling import merged

CORE = "/api/v1/namespaces/${ns}"
APPS = "/apis/apps/v1/namespaces/${ns}"
BATCH = "/apis/batch/v1/namespaces/${ns}"
NETWORKING = "/apis/networking.k8s.io/v1/namespaces/${ns}"
POLICY = "/apis/policy/v1/namespaces/${ns}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

CONFIGMAPS = f"{CORE}/configmaps"
SECRETS = f"{CORE}/secrets"
PODS = f"{CORE}/pods"
SERVICES = f"{CORE}/services"
SERVICE_ACCOUNTS = f"{CORE}/serviceaccounts"
CLAIMS = f"{CORE}/persistentvolumeclaims"
QUOTAS = f"{CORE}/resourcequotas"
EVENTS = f"{CORE}/events"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
VOLUMES = "/api/v1/persistentvolumes"
DEPLOYMENTS = f"{APPS}/deployments"
REPLICA_SETS = f"{APPS}/replicasets"
JOBS = f"{BATCH}/jobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases"
POLICIES = f"{NETWORKING}/networkpolicies"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/${ns}/endpointslices"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BUDGETS = f"{POLICY}/poddisruptionbudgets"
ROLES = f"{RBAC}/namespaces/${{ns}}/roles"
ROLE_BINDINGS = f"{RBAC}/namespaces/${{ns}}/rolebindings"
CLUSTER_ROLES = f"{RBAC}/clusterroles"
CLUSTER_ROLE_BINDINGS = f"{RBAC}/clusterrolebindings"
WIDGETS = "/apis/differential.example.com/v1/namespaces/${ns}/widgets"


def made(api_version: str, kind: str, name: str, base: Json, changes: Json) -> Json:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **copy.deepcopy(base)}
    return merged(document, changes or {})


def configmap(name: str = "a", changes: Json = None) -> Json:
    return made("v1", "ConfigMap", name, {"data": {"color": "blue"}}, changes)


def secret(name: str = "a", changes: Json = None) -> Json:
    return made("v1", "Secret", name, {"data": {"key": "dmFsdWU="}}, changes)


def service_account(name: str = "a", changes: Json = None) -> Json:
    return made("v1", "ServiceAccount", name, {}, changes)


def container(**fields: Json) -> Json:
    return {"name": "main", "image": "busybox:1.36", **fields}


def pod_spec(*containers: Json, **fields: Json) -> Json:
    return {"automountServiceAccountToken": False, "containers": list(containers) or [container()], **fields}


def pod(name: str = "a", changes: Json = None, **spec: Json) -> Json:
    return made("v1", "Pod", name, {"spec": pod_spec(**spec)}, changes)


def template(labels: Json = None, **spec: Json) -> Json:
    return {"metadata": {"labels": labels or {"app": "a"}}, "spec": pod_spec(**spec)}


def deployment(name: str = "a", changes: Json = None) -> Json:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
    return made("apps/v1", "Deployment", name, {"spec": spec}, changes)


def replica_set(name: str = "a", changes: Json = None) -> Json:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
    return made("apps/v1", "ReplicaSet", name, {"spec": spec}, changes)


def job(name: str = "a", changes: Json = None) -> Json:
    spec = {"template": {"spec": pod_spec(restartPolicy="Never")}}
    return made("batch/v1", "Job", name, {"spec": spec}, changes)


def service(name: str = "a", changes: Json = None) -> Json:
    spec = {"selector": {"app": "a"}, "ports": [{"port": 80}]}
    return made("v1", "Service", name, {"spec": spec}, changes)


def claim(name: str = "a", changes: Json = None) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return made("v1", "PersistentVolumeClaim", name, {"spec": spec}, changes)


def volume(name: str = "${ns}-a", changes: Json = None) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "fast",
        "hostPath": {"path": "/data"},
    }
    return made("v1", "PersistentVolume", name, {"spec": spec}, changes)


def storage_class(name: str = "${ns}-a", changes: Json = None) -> Json:
    return made("storage.k8s.io/v1", "StorageClass", name, {"provisioner": "example.com/disk"}, changes)


def quota(name: str = "a", changes: Json = None) -> Json:
    return made("v1", "ResourceQuota", name, {"spec": {"hard": {"pods": "2"}}}, changes)


def lease(name: str = "a", changes: Json = None) -> Json:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15}
    return made("coordination.k8s.io/v1", "Lease", name, {"spec": spec}, changes)


def priority_class(name: str = "${ns}-a", changes: Json = None) -> Json:
    return made("scheduling.k8s.io/v1", "PriorityClass", name, {"value": 100}, changes)


def network_policy(name: str = "a", changes: Json = None) -> Json:
    spec = {"podSelector": {"matchLabels": {"app": "a"}}, "ingress": [{"ports": [{"port": 80}]}]}
    return made("networking.k8s.io/v1", "NetworkPolicy", name, {"spec": spec}, changes)


def slice_(name: str = "a", changes: Json = None) -> Json:
    base = {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"name": "http", "port": 80}],
    }
    return made("discovery.k8s.io/v1", "EndpointSlice", name, base, changes)


def event(name: str = "a", changes: Json = None) -> Json:
    base = {
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": "${ns}"},
        "reason": "Started",
        "message": "it started",
        "type": "Normal",
        "count": 1,
    }
    return made("v1", "Event", name, base, changes)


def namespace(name: str = "${ns}-other", changes: Json = None) -> Json:
    return made("v1", "Namespace", name, {}, changes)


def node(name: str = "${ns}-node", changes: Json = None) -> Json:
    return made("v1", "Node", name, {}, changes)


def budget(name: str = "a", changes: Json = None) -> Json:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    return made("policy/v1", "PodDisruptionBudget", name, {"spec": spec}, changes)


RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]


def role(name: str = "a", changes: Json = None) -> Json:
    return made("rbac.authorization.k8s.io/v1", "Role", name, {"rules": RULES}, changes)


def cluster_role(name: str = "${ns}-a", changes: Json = None) -> Json:
    return made("rbac.authorization.k8s.io/v1", "ClusterRole", name, {"rules": RULES}, changes)


def binding(kind: str, role_kind: str, name: str, changes: Json) -> Json:
    base = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "${ns}"}],
    }
    return made("rbac.authorization.k8s.io/v1", kind, name, base, changes)


def role_binding(name: str = "a", changes: Json = None) -> Json:
    return binding("RoleBinding", "Role", name, changes)


def cluster_role_binding(name: str = "${ns}-a", changes: Json = None) -> Json:
    return binding("ClusterRoleBinding", "ClusterRole", name, changes)


def widget(name: str = "a", changes: Json = None) -> Json:
    return made("differential.example.com/v1", "Widget", name, {"spec": {"size": 3, "color": "red"}}, changes)


BUILDERS: dict[str, Callable[..., Json]] = {
    CONFIGMAPS: configmap,
    SECRETS: secret,
    PODS: pod,
    SERVICES: service,
    SERVICE_ACCOUNTS: service_account,
    CLAIMS: claim,
    QUOTAS: quota,
    EVENTS: event,
    NAMESPACES: namespace,
    NODES: node,
    VOLUMES: volume,
    DEPLOYMENTS: deployment,
    REPLICA_SETS: replica_set,
    JOBS: job,
    LEASES: lease,
    POLICIES: network_policy,
    SLICES: slice_,
    STORAGE_CLASSES: storage_class,
    PRIORITY_CLASSES: priority_class,
    BUDGETS: budget,
    ROLES: role,
    ROLE_BINDINGS: role_binding,
    CLUSTER_ROLES: cluster_role,
    CLUSTER_ROLE_BINDINGS: cluster_role_binding,
    WIDGETS: widget,
}
"""Where each kind is served, and the valid object of it."""
