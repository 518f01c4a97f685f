"""The kinds that calls are generated for: where they are served, valid objects, what may change and what may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from kube.differential import objects
from kube.differential.call import Json
from kube.differential.filling import merged
from kube.differential.widget_crd import crd

LABELS = {"metadata": {"labels": {"generated": "yes"}}}


@dataclass(frozen=True)
class Kind:
    """One kind: `mutable` changes are accepted in an update, `immutable` ones refused."""

    path: str
    build: Callable[..., Json]
    mutable: tuple[Json, ...] = ()
    immutable: tuple[Json, ...] = ()
    status: tuple[Json, ...] = ()
    """Merge patches of the status subresource; none where there is none."""
    required: tuple[str, ...] = ()
    """Dotted fields without which the object is refused."""
    numbers: tuple[str, ...] = ()
    """Dotted fields that a string is no value for."""
    scaled: bool = False
    cluster_scoped: bool = False
    serves: str = ""
    """A path that answers once the object is in force; polled before the object is touched again."""
    own_versions: str = ""
    """Why its versions are not compared; empty where they are."""

    @property
    def resource(self) -> str:
        return self.path.rsplit("/", 1)[1]


IMAGE = {"containers": [objects.container(image="busybox:2")]}
TWO = {"spec": {"containers": [objects.container(), objects.container(name="b")]}}

# A quota with a status would count pods, and the real server counts even those that it refuses as already there.
BUILT_IN: tuple[Kind, ...] = (
    Kind(
        objects.CONFIGMAPS, objects.configmap, mutable=({"data": {"color": "green"}}, {"data": None}), numbers=("data",)
    ),
    Kind(
        objects.SECRETS,
        objects.secret,
        mutable=({"stringData": {"a": "b"}},),
        immutable=({"type": "example.com/x"},),
        numbers=("data",),
    ),
    Kind(
        objects.SERVICE_ACCOUNTS,
        objects.service_account,
        mutable=({"imagePullSecrets": [{"name": "x"}]},),
        numbers=("imagePullSecrets",),
    ),
    Kind(
        objects.PODS,
        objects.pod,
        mutable=({"spec": IMAGE},),
        immutable=(TWO, {"spec": {"restartPolicy": "Never"}}, {"spec": {"hostname": "x"}}),
        status=({"status": {"phase": "Running"}}, {"status": {"message": "so", "reason": "Because"}}),
        required=("spec.containers",),
        numbers=("spec.terminationGracePeriodSeconds", "spec.containers"),
    ),
    Kind(
        objects.SERVICES,
        objects.service,
        mutable=({"spec": {"selector": {"app": "b"}}}, {"spec": {"ports": [{"port": 90}]}}),
        immutable=({"spec": {"clusterIP": "10.96.250.250"}},),
        status=({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},),
        required=("spec.ports",),
        numbers=("spec.ports",),
    ),
    Kind(
        objects.CLAIMS,
        objects.claim,
        mutable=(LABELS,),
        immutable=({"spec": {"storageClassName": "x"}}, {"spec": {"accessModes": ["ReadWriteMany"]}}),
        status=({"status": {"phase": "Bound"}},),
        required=("spec.accessModes", "spec.resources"),
        numbers=("spec.accessModes",),
        own_versions="the first update of a claim is written in other bytes and gets a version, changed or not",
    ),
    Kind(
        objects.QUOTAS,
        objects.quota,
        mutable=({"spec": {"hard": {"services": "5"}}},),
        immutable=({"spec": {"scopes": ["BestEffort"]}},),
        status=({"status": {"hard": {"services.loadbalancers": "9"}, "used": {"services.loadbalancers": "0"}}},),
        numbers=("spec.hard",),
    ),
    Kind(
        objects.EVENTS,
        objects.event,
        mutable=({"count": 2}, {"message": "again"}),
        required=("involvedObject.namespace",),
        numbers=("count",),
    ),
    Kind(
        objects.DEPLOYMENTS,
        objects.deployment,
        mutable=({"spec": {"replicas": 4}}, {"spec": {"template": {"spec": IMAGE}}}, {"spec": {"paused": True}}),
        immutable=({"spec": {"selector": {"matchLabels": {"b": "c"}}}},),
        status=({"status": {"replicas": 1, "observedGeneration": 1}},),
        required=("spec.selector", "spec.template"),
        numbers=("spec.replicas", "spec.template.spec.containers"),
        scaled=True,
    ),
    Kind(
        objects.REPLICA_SETS,
        objects.replica_set,
        mutable=({"spec": {"replicas": 4}},),
        immutable=({"spec": {"selector": {"matchLabels": {"b": "c"}}}},),
        status=({"status": {"replicas": 1}},),
        required=("spec.selector",),
        numbers=("spec.replicas",),
        scaled=True,
    ),
    Kind(
        objects.JOBS,
        objects.job,
        mutable=({"spec": {"suspend": True}}, {"spec": {"parallelism": 3}}),
        immutable=({"spec": {"completions": 9}}, {"spec": {"template": {"spec": IMAGE}}}),
        status=({"status": {"active": 1}},),
        required=("spec.template", "spec.template.spec.restartPolicy"),
        numbers=("spec.backoffLimit",),
    ),
    Kind(
        objects.LEASES,
        objects.lease,
        mutable=({"spec": {"holderIdentity": "you"}},),
        numbers=("spec.leaseDurationSeconds",),
    ),
    Kind(
        objects.POLICIES,
        objects.network_policy,
        mutable=({"spec": {"ingress": [{"ports": [{"port": 81}]}]}},),
        numbers=("spec.ingress",),
    ),
    Kind(
        objects.SLICES,
        objects.slice_,
        mutable=({"endpoints": [{"addresses": ["10.9.9.9"]}]},),
        immutable=({"addressType": "IPv6", "endpoints": []},),
        required=("addressType",),
        numbers=("ports",),
    ),
    Kind(
        objects.BUDGETS,
        objects.budget,
        mutable=({"spec": {"minAvailable": 2}},),
        status=({"status": {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1}},),
        numbers=("spec.selector",),
    ),
    Kind(objects.ROLES, objects.role, mutable=({"rules": []},), numbers=("rules",)),
    Kind(
        objects.ROLE_BINDINGS,
        objects.role_binding,
        mutable=({"subjects": []},),
        immutable=({"roleRef": {"name": "x"}},),
        required=("roleRef",),
        numbers=("subjects",),
    ),
    Kind(
        objects.WIDGETS,
        objects.widget,
        mutable=({"spec": {"size": 9}}, {"spec": {"free": {"a": 1}}}),
        immutable=({"spec": {"zone": "x"}},),
        status=({"status": {"phase": "On"}}, {"status": {"replicas": 2}}),
        required=("spec.size",),
        numbers=("spec.size", "spec.tags"),
        scaled=True,
    ),
    Kind(
        objects.NAMESPACES,
        objects.namespace,
        mutable=(LABELS,),
        status=({"status": {"conditions": []}},),
        cluster_scoped=True,
        numbers=("spec",),
    ),
    Kind(
        objects.NODES,
        objects.node,
        mutable=({"spec": {"unschedulable": True}},),
        status=({"status": {"capacity": {"cpu": "2"}}},),
        cluster_scoped=True,
        numbers=("spec.taints",),
    ),
    Kind(
        objects.VOLUMES,
        objects.volume,
        mutable=({"spec": {"persistentVolumeReclaimPolicy": "Delete"}},),
        immutable=({"spec": {"hostPath": {"path": "/x"}}},),
        status=({"status": {"phase": "Bound"}},),
        required=("spec.capacity", "spec.accessModes"),
        cluster_scoped=True,
        numbers=("spec.accessModes",),
    ),
    Kind(
        objects.STORAGE_CLASSES,
        objects.storage_class,
        mutable=({"allowVolumeExpansion": True},),
        immutable=({"provisioner": "x.example.com"},),
        required=("provisioner",),
        cluster_scoped=True,
        numbers=("mountOptions",),
    ),
    Kind(
        objects.PRIORITY_CLASSES,
        objects.priority_class,
        mutable=({"description": "x"},),
        immutable=({"value": 3},),
        cluster_scoped=True,
        numbers=("value",),
    ),
    Kind(
        objects.CLUSTER_ROLES, objects.cluster_role, mutable=({"rules": []},), cluster_scoped=True, numbers=("rules",)
    ),
    Kind(
        objects.CLUSTER_ROLE_BINDINGS,
        objects.cluster_role_binding,
        mutable=({"subjects": []},),
        immutable=({"roleRef": {"name": "x"}},),
        required=("roleRef",),
        cluster_scoped=True,
        numbers=("subjects",),
    ),
)


def definition(name: str, changes: Json = None) -> Json:
    """A CRD named after `name`, which is where its resources are served."""
    return crd(f"{name}.example.com", changes)


CRD = Kind(
    objects.CRDS,
    definition,
    mutable=(LABELS,),
    status=({"status": {"storedVersions": ["v1"]}},),
    immutable=({"spec": {"scope": "Cluster"}},),
    required=("spec.group", "spec.versions"),
    numbers=("spec.versions",),
    cluster_scoped=True,
    serves="/apis/{name}.example.com/v1/widgets",
)

SAMPLES = Path(__file__).parents[4] / "config" / "samples"
DEFINITIONS = Path(__file__).parents[4] / "config" / "crd" / "bases"
OURS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/${ns}"


def sample(kind: str) -> Callable[..., Json]:
    """A builder of the product's own sample of a kind."""
    base = yaml.safe_load((SAMPLES / f"runtime_v1alpha1_{kind}.yaml").read_text())

    def build(name: str = "a", changes: Json = None) -> Json:
        return merged(merged(base, {"metadata": {"name": name}, "status": None}), changes or {})

    return build


def as_defined(kind: Kind) -> Kind:
    """The kind without calls of subresources that its definition does not have."""
    path = DEFINITIONS / f"runtime.lokiwager.io_{kind.resource}.yaml"
    subresources = yaml.safe_load(path.read_text())["spec"]["versions"][0].get("subresources", {})
    return replace(kind, status=kind.status if "status" in subresources else (), scaled="scale" in subresources)


PRODUCT: tuple[Kind, ...] = (
    Kind(
        f"{OURS}/stockpools",
        sample("stockpool"),
        mutable=({"spec": {"replicas": 3}}, {"spec": {"image": "other:1"}}),
        immutable=({"spec": {"specName": "g9.9"}},),
        status=({"status": {"available": 1, "phase": "Progressing"}},),
        required=("spec", "spec.specName"),
        numbers=("spec.replicas", "spec.template.args"),
        scaled=True,
    ),
    Kind(
        f"{OURS}/gpuunits",
        sample("gpuunit"),
        mutable=({"spec": {"image": "other:1"}}, {"spec": {"template": {"args": ["x"]}}}),
        immutable=({"spec": {"memory": "2Gi"}}, {"spec": {"cpu": None}}),
        status=({"status": {"nodeName": "n"}},),
        required=("spec", "spec.specName"),
        numbers=("spec.template.ports",),
    ),
    Kind(
        f"{OURS}/gpustorages",
        sample("gpustorage"),
        mutable=({"spec": {"size": "2Gi"}},),
        immutable=({"spec": {"storageClassName": "other"}},),
        status=({"status": {"conditions": []}},),
        required=("spec", "spec.size"),
        numbers=("spec.size",),
    ),
    Kind(
        f"{OURS}/gpufunctions",
        sample("gpufunction"),
        mutable=({"spec": {"maxWorkers": 9}},),
        status=({"status": {"conditions": []}},),
        required=("spec", "spec.unit"),
        numbers=("spec.maxWorkers",),
    ),
    Kind(
        f"{OURS}/operations",
        sample("operation"),
        mutable=(LABELS,),
        immutable=({"spec": {"operationID": "other"}},),
        status=({"status": {"phase": "Succeeded"}},),
        required=("spec", "spec.operationID"),
        numbers=("spec.requestHash",),
    ),
)

KINDS = (*BUILT_IN, CRD, *(as_defined(kind) for kind in PRODUCT))
