"""Deployments, Jobs, Services, claims and the other kinds that we write: what is valid, what is filled in."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, get, post
from kube.differential.objects import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    POLICIES,
    PRIORITY_CLASSES,
    QUOTAS,
    REPLICA_SETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    SLICES,
    STORAGE_CLASSES,
    VOLUMES,
    budget,
    claim,
    deployment,
    event,
    job,
    lease,
    network_policy,
    node,
    priority_class,
    quota,
    replica_set,
    role,
    role_binding,
    service,
    slice_,
    storage_class,
    volume,
)


def deploying(title: str, /, **spec: Json) -> Case:
    return case(title, post(DEPLOYMENTS, deployment(changes={"spec": spec})))


def running(title: str, /, **spec: Json) -> Case:
    """A Job with these fields."""
    return case(title, post(JOBS, job(changes={"spec": spec})))


def serving(title: str, /, **spec: Json) -> Case:
    """A Service with these fields."""
    return case(title, post(SERVICES, service(changes={"spec": spec})))


def claiming(title: str, /, **spec: Json) -> Case:
    return case(title, post(CLAIMS, claim(changes={"spec": spec})))


def leasing(title: str, /, **spec: Json) -> Case:
    return case(title, post(LEASES, lease(changes={"spec": spec})))


def limiting(title: str, /, **spec: Json) -> Case:
    """A ResourceQuota with these fields."""
    return case(title, post(QUOTAS, quota(changes={"spec": spec})))


def guarding(title: str, /, **spec: Json) -> Case:
    """A NetworkPolicy with these fields."""
    return case(title, post(POLICIES, network_policy(changes={"spec": spec})))


CASES = [
    deploying("a deployment needs a selector", selector=None),
    deploying("an empty selector is refused", selector={}),
    deploying("the selector must match the template", selector={"matchLabels": {"app": "other"}}),
    deploying(
        "a selector with expressions",
        selector={"matchLabels": None, "matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]},
    ),
    deploying("an expression needs values", selector={"matchExpressions": [{"key": "app", "operator": "In"}]}),
    deploying(
        "an expression that exists has no values",
        selector={"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]},
    ),
    deploying(
        "an unknown operator in a selector is refused",
        selector={"matchExpressions": [{"key": "app", "operator": "Near"}]},
    ),
    deploying("a deployment needs a template", template=None),
    deploying("a negative number of replicas is refused", replicas=-1),
    deploying("replicas of zero are kept", replicas=0),
    deploying("replicas that are a string are refused", replicas="3"),
    deploying("replicas with a fraction are refused", replicas=1.5),
    deploying("replicas beyond an int32 are refused", replicas=3000000000),
    deploying("replicas that are null are one", replicas=None),
    deploying("the strategy Recreate is kept", strategy={"type": "Recreate"}),
    deploying("an unknown strategy is refused", strategy={"type": "Sudden"}),
    deploying("a rolling update is kept", strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "50%"}}),
    deploying(
        "a rolling update of nothing at a time is refused",
        strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
    ),
    deploying("a percentage that is none is refused", strategy={"rollingUpdate": {"maxSurge": "half"}}),
    deploying("a percentage over 100 is refused", strategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
    deploying("a deadline must exceed minReadySeconds", minReadySeconds=60, progressDeadlineSeconds=60),
    deploying("a negative history is refused", revisionHistoryLimit=-1),
    deploying("a paused deployment is kept", paused=True),
    deploying("paused as a string is refused", paused="yes"),
    case(
        "several faults of a deployment are all named",
        post(
            DEPLOYMENTS,
            deployment(
                changes={
                    "spec": {
                        "replicas": -1,
                        "minReadySeconds": -1,
                        "revisionHistoryLimit": -1,
                        "selector": {"matchLabels": {"app": "b c"}},
                    }
                }
            ),
        ),
    ),
    case("a deployment spec is required", post(DEPLOYMENTS, deployment(changes={"spec": None}))),
    case("a deployment spec that is a list is refused", post(DEPLOYMENTS, deployment(changes={"spec": []}))),
    case(
        "a replica set needs a matching template",
        post(REPLICA_SETS, replica_set(changes={"spec": {"selector": {"matchLabels": {"app": "b"}}}})),
    ),
    case(
        "a replica set must restart always",
        post(REPLICA_SETS, replica_set(changes={"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}})),
    ),
    case("a negative replica set is refused", post(REPLICA_SETS, replica_set(changes={"spec": {"replicas": -2}}))),
    running("a job may not restart always", template={"spec": {"restartPolicy": "Always"}}),
    running("a job needs a restart policy", template={"spec": {"restartPolicy": None}}),
    running("a job needs a template", template=None),
    running("a negative parallelism is refused", parallelism=-1),
    running("a negative back-off is refused", backoffLimit=-1),
    running("completions and parallelism are kept", completions=3, parallelism=2, backoffLimit=0),
    running("a job's own selector is refused", selector={"matchLabels": {"a": "b"}}),
    running(
        "a manual selector needs its labels",
        manualSelector=True,
        selector={"matchLabels": {"a": "b"}},
        template={"metadata": {"labels": {"a": "b"}}},
    ),
    running("a time to live is kept", ttlSecondsAfterFinished=60, activeDeadlineSeconds=30),
    running("an unknown completion mode is refused", completionMode="Some"),
    running("an indexed job needs completions", completionMode="Indexed"),
    running("a suspended job is kept", suspend=True),
    serving("a service needs ports", ports=[]),
    serving("a port of a service is in range", ports=[{"port": 70000}]),
    serving("a port of a service is required", ports=[{"targetPort": 80}]),
    serving("two ports need names", ports=[{"port": 80}, {"port": 81}]),
    serving(
        "two ports of one number and protocol are refused", ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]
    ),
    serving(
        "two protocols may share a port",
        ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b", "protocol": "UDP"}],
    ),
    serving("a target port may be a name", ports=[{"port": 80, "targetPort": "http"}]),
    serving("a target port name is checked", ports=[{"port": 80, "targetPort": "Not A Port"}]),
    serving("a target port of zero becomes the port", ports=[{"port": 80, "targetPort": 0}]),
    serving("a headless service is kept", clusterIP="None"),
    serving("a headless service may have no ports", clusterIP="None", ports=None),
    serving("a clusterIP that is none is refused", clusterIP="nonsense"),
    serving("a clusterIP out of the range is refused", clusterIP="192.168.1.1"),
    serving("an unknown type of service is refused", type="Magic"),
    serving("a node port service gets ports", type="NodePort"),
    serving("a node port on a cluster service is refused", ports=[{"port": 80, "nodePort": 30080}]),
    serving("an external name is kept", type="ExternalName", externalName="example.com", ports=None, selector=None),
    serving("an external name is required", type="ExternalName", ports=None),
    serving("a load balancer is kept", type="LoadBalancer"),
    serving("session affinity is kept", sessionAffinity="ClientIP"),
    serving("an unknown session affinity is refused", sessionAffinity="Always"),
    serving("a selector of a service is checked", selector={"a b": "c"}),
    serving("a service publishes what is not ready", publishNotReadyAddresses=True),
    claiming("a claim needs access modes", accessModes=None),
    claiming("an unknown access mode is refused", accessModes=["Sometimes"]),
    claiming("a claim needs a request", resources=None),
    claiming("a claim of nothing is refused", resources={"requests": {"storage": "0"}}),
    claiming("a negative claim is refused", resources={"requests": {"storage": "-1Gi"}}),
    claiming("a claim that is no quantity is refused", resources={"requests": {"storage": "big"}}),
    claiming("a claim without a class stays without", storageClassName=None),
    claiming("a claim with an empty class is kept", storageClassName=""),
    claiming("a class name is checked", storageClassName="Not A Class"),
    claiming("a block claim is kept", volumeMode="Block"),
    claiming("an unknown volume mode is refused", volumeMode="Magic"),
    claiming("a canonical quantity is stored", resources={"requests": {"storage": "1024Mi"}}),
    claiming("a read-write-once-pod claim stands alone", accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
    case("a claim spec is required", post(CLAIMS, claim(changes={"spec": None}))),
    case("a volume needs a capacity", post(VOLUMES, volume(changes={"spec": {"capacity": None}}))),
    case("a volume needs a source", post(VOLUMES, volume(changes={"spec": {"hostPath": None}}))),
    case("a volume needs access modes", post(VOLUMES, volume(changes={"spec": {"accessModes": None}}))),
    case(
        "an unknown reclaim policy is refused",
        post(VOLUMES, volume(changes={"spec": {"persistentVolumeReclaimPolicy": "Burn"}})),
    ),
    case(
        "a local volume needs a node",
        post(VOLUMES, volume(changes={"spec": {"hostPath": None, "local": {"path": "/d"}}})),
    ),
    case("a storage class needs a provisioner", post(STORAGE_CLASSES, storage_class(changes={"provisioner": ""}))),
    case(
        "an unknown binding mode is refused",
        post(STORAGE_CLASSES, storage_class(changes={"volumeBindingMode": "Later"})),
    ),
    case(
        "a storage class may wait for its consumer",
        post(
            STORAGE_CLASSES,
            storage_class(
                changes={
                    "volumeBindingMode": "WaitForFirstConsumer",
                    "reclaimPolicy": "Retain",
                    "parameters": {"a": "b"},
                }
            ),
        ),
    ),
    case(
        "an unknown reclaim policy of a class is refused",
        post(STORAGE_CLASSES, storage_class(changes={"reclaimPolicy": "Burn"})),
    ),
    leasing("a lease may be empty", holderIdentity=None, leaseDurationSeconds=None),
    leasing("a duration of zero is refused", leaseDurationSeconds=0),
    leasing("a negative number of transitions is refused", leaseTransitions=-1),
    leasing("an empty holder is refused or kept", holderIdentity=""),
    leasing(
        "a full lease is kept",
        acquireTime="2020-01-02T03:04:05.678901Z",
        renewTime="2020-01-02T03:04:06.000000Z",
        leaseTransitions=2,
    ),
    leasing("a duration that is a string is refused", leaseDurationSeconds="15"),
    limiting(
        "quota counts and requests are kept",
        hard={
            "requests.cpu": "4",
            "limits.memory": "10Gi",
            "requests.nvidia.com/gpu": "8",
            "count/deployments.apps": "3",
            "persistentvolumeclaims": "5",
        },
    ),
    limiting("an unknown quota resource is refused", hard={"nonsense": "1"}),
    limiting("a negative quota is refused", hard={"pods": "-1"}),
    limiting("half a pod in a quota is refused", hard={"pods": "1.5"}),
    limiting("quota scopes are kept", scopes=["NotTerminating"]),
    limiting("an unknown quota scope is refused", scopes=["Sometimes"]),
    limiting("a quota scope must fit its resources", scopes=["BestEffort"], hard={"requests.cpu": "1"}),
    case("a priority class needs a value", post(PRIORITY_CLASSES, priority_class(changes={"value": None}))),
    case("a priority over a billion is refused", post(PRIORITY_CLASSES, priority_class(changes={"value": 1000000001}))),
    case("a negative priority is kept", post(PRIORITY_CLASSES, priority_class(changes={"value": -10}))),
    case("a system prefix of a priority class is refused", post(PRIORITY_CLASSES, priority_class("system-${ns}"))),
    case(
        "a priority class that never preempts is kept",
        post(PRIORITY_CLASSES, priority_class(changes={"preemptionPolicy": "Never", "description": "low"})),
    ),
    case(
        "an unknown preemption policy is refused",
        post(PRIORITY_CLASSES, priority_class(changes={"preemptionPolicy": "Maybe"})),
    ),
    case(
        "the system priority classes are there",
        get(f"{PRIORITY_CLASSES}/system-node-critical"),
        get(f"{PRIORITY_CLASSES}/system-cluster-critical"),
    ),
    guarding(
        "a policy of both ways is kept",
        policyTypes=["Ingress", "Egress"],
        egress=[{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}],
    ),
    guarding("a policy type that is unknown is refused", policyTypes=["Sideways"]),
    guarding("a block that is none is refused", ingress=[{"from": [{"ipBlock": {"cidr": "nonsense"}}]}]),
    guarding("a peer has one form", ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}]),
    guarding("an empty peer is refused", ingress=[{"from": [{}]}]),
    guarding("a port of a policy is in range", ingress=[{"ports": [{"port": 0}]}]),
    guarding("a protocol of a policy is known", ingress=[{"ports": [{"port": 80, "protocol": "HTTP"}]}]),
    guarding("a policy for all pods is kept", podSelector={}, ingress=None, policyTypes=["Ingress"]),
    case("an endpoint slice needs a type", post(SLICES, slice_(changes={"addressType": None}))),
    case("an endpoint address is checked", post(SLICES, slice_(changes={"endpoints": [{"addresses": ["nonsense"]}]}))),
    case("an endpoint needs an address", post(SLICES, slice_(changes={"endpoints": [{"addresses": []}]}))),
    case(
        "endpoint conditions are kept",
        post(
            SLICES,
            slice_(
                changes={
                    "endpoints": [
                        {
                            "addresses": ["10.1.2.3"],
                            "conditions": {"ready": False},
                            "nodeName": "n",
                            "targetRef": {"kind": "Pod", "name": "a"},
                        }
                    ]
                }
            ),
        ),
    ),
    case(
        "an event is about something in its namespace",
        post(EVENTS, event(changes={"involvedObject": {"namespace": "elsewhere"}})),
    ),
    case(
        "an event with a source is kept",
        post(
            EVENTS,
            event(
                changes={
                    "source": {"component": "me"},
                    "firstTimestamp": "2020-01-01T00:00:00Z",
                    "lastTimestamp": "2020-01-01T00:00:00Z",
                }
            ),
        ),
    ),
    case(
        "a node with taints is kept",
        post(
            NODES,
            node(
                changes={
                    "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": True}
                }
            ),
        ),
    ),
    case(
        "an unknown taint effect is refused",
        post(NODES, node(changes={"spec": {"taints": [{"key": "a", "effect": "Maybe"}]}})),
    ),
    case("a budget has one limit", post(BUDGETS, budget(changes={"spec": {"maxUnavailable": 1}}))),
    case("a budget may be a percentage", post(BUDGETS, budget(changes={"spec": {"minAvailable": "50%"}}))),
    case("a negative budget is refused", post(BUDGETS, budget(changes={"spec": {"minAvailable": -1}}))),
    case("a rule needs verbs", post(ROLES, role(changes={"rules": [{"apiGroups": [""], "resources": ["pods"]}]}))),
    case(
        "a rule of a role has no URLs",
        post(ROLES, role(changes={"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]})),
    ),
    case(
        "a binding needs a known kind of role",
        post(ROLE_BINDINGS, role_binding(changes={"roleRef": {"kind": "Nonsense"}})),
    ),
    case("a binding needs a role", post(ROLE_BINDINGS, role_binding(changes={"roleRef": None}))),
    case(
        "a subject of an unknown kind is refused",
        post(ROLE_BINDINGS, role_binding(changes={"subjects": [{"kind": "Robot", "name": "a"}]})),
    ),
]
