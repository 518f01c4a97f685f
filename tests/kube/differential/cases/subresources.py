"""Status, scale, binding, log and the subresources that are not served."""

from __future__ import annotations

from kube.differential.call import case, delete, edit, get, json_patch, merge, post, put, quietly, strategic, worded
from kube.differential.objects import (
    CLAIMS,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    VOLUMES,
    WIDGETS,
    claim,
    configmap,
    deployment,
    job,
    namespace,
    node,
    pod,
    quota,
    replica_set,
    service,
    volume,
    widget,
)

D, P, W, J, R = f"{DEPLOYMENTS}/a", f"{PODS}/a", f"{WIDGETS}/a", f"{JOBS}/a", f"{REPLICA_SETS}/a"
MADE_DEPLOYMENT = quietly(post(DEPLOYMENTS, deployment(), "made"))
MADE_POD = quietly(post(PODS, pod(), "made"))
MADE_WIDGET = quietly(post(WIDGETS, widget(), "made"))
MADE_JOB = quietly(post(JOBS, job(), "made"))
AVAILABLE = {
    "type": "Available",
    "status": "True",
    "reason": "Enough",
    "message": "yes",
    "lastUpdateTime": "2020-01-01T00:00:00Z",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}
SCALE = {
    "apiVersion": "autoscaling/v1",
    "kind": "Scale",
    "metadata": {"name": "a", "namespace": "${ns}"},
    "spec": {"replicas": 5},
}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "${ns}"}}

CASES = [
    case("a status is read as the whole object", MADE_DEPLOYMENT, get(f"{D}/status")),
    case(
        "a status update leaves the spec alone",
        MADE_DEPLOYMENT,
        edit(
            f"{D}/status",
            "made",
            {"spec": {"replicas": 9}, "status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}},
        ),
    ),
    case(
        "a status update takes labels or not",
        MADE_DEPLOYMENT,
        edit(f"{D}/status", "made", {"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 2}}),
    ),
    case(
        "a status patch drops finalizers",
        MADE_WIDGET,
        merge(
            f"{W}/status",
            {"metadata": {"finalizers": ["example.com/hold"], "annotations": {"a": "b"}}, "status": {"phase": "On"}},
        ),
    ),
    case(
        "a status patch does not raise the generation",
        MADE_WIDGET,
        merge(f"{W}/status", {"status": {"phase": "On"}, "spec": {"size": 50}}),
    ),
    case("a spec patch drops the status", MADE_WIDGET, merge(W, {"status": {"phase": "On"}, "spec": {"size": 50}})),
    case("a spec patch of status alone changes nothing", MADE_WIDGET, merge(W, {"status": {"phase": "On"}})),
    case(
        "a stale status update is a conflict",
        MADE_WIDGET,
        quietly(merge(W, {"spec": {"size": 4}})),
        edit(f"{W}/status", "made", {"status": {"phase": "x"}}),
    ),
    case(
        "a status without a version overwrites",
        MADE_WIDGET,
        quietly(merge(W, {"spec": {"size": 4}})),
        put(f"{W}/status", widget(changes={"status": {"phase": "x"}})),
    ),
    case("a status of a wrong type is refused", MADE_WIDGET, merge(f"{W}/status", {"status": {"replicas": "many"}})),
    case("a status that is a list is refused", MADE_WIDGET, merge(f"{W}/status", {"status": ["many"]})),
    case(
        "an unknown field of a status is pruned",
        MADE_WIDGET,
        merge(f"{W}/status", {"status": {"phase": "x", "nonsense": 1}}),
    ),
    case(
        "a status may be patched with operations",
        MADE_WIDGET,
        json_patch(f"{W}/status", {"op": "add", "path": "/status", "value": {"phase": "x"}}),
    ),
    case(
        "conditions of a status need their keys",
        MADE_WIDGET,
        merge(f"{W}/status", {"status": {"conditions": [{"status": "True"}]}}),
    ),
    case(
        "conditions of one type twice are refused",
        MADE_WIDGET,
        merge(
            f"{W}/status",
            {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "A", "status": "False"}]}},
        ),
    ),
    case("a status of what is not there is refused", merge(f"{WIDGETS}/absent/status", {"status": {}})),
    case("a post to a status is refused", MADE_WIDGET, post(f"{W}/status", widget())),
    case("a delete of a status is refused", MADE_WIDGET, delete(f"{W}/status")),
    case("a config map has no status", quietly(post(CONFIGMAPS, configmap())), get(f"{CONFIGMAPS}/a/status")),
    case(
        "conditions of a deployment are merged by type",
        MADE_DEPLOYMENT,
        strategic(f"{D}/status", {"status": {"conditions": [AVAILABLE]}}),
        strategic(
            f"{D}/status",
            {"status": {"conditions": [{**AVAILABLE, "status": "False"}, {**AVAILABLE, "type": "Progressing"}]}},
        ),
    ),
    case(
        "a negative count of replicas in a status is refused",
        MADE_DEPLOYMENT,
        merge(f"{D}/status", {"status": {"replicas": -1}}),
    ),
    case(
        "a status with more ready than there are is refused",
        MADE_DEPLOYMENT,
        merge(f"{D}/status", {"status": {"replicas": 1, "readyReplicas": 2}}),
    ),
    case(
        "a job status is written",
        MADE_JOB,
        merge(f"{J}/status", {"status": {"active": 1, "startTime": "2020-01-01T00:00:00Z"}}),
    ),
    case(
        "a job status is finished",
        MADE_JOB,
        merge(
            f"{J}/status",
            {
                "status": {
                    "succeeded": 1,
                    "startTime": "2020-01-01T00:00:00Z",
                    "completionTime": "2020-01-01T00:01:00Z",
                    "conditions": [
                        {"type": "SuccessCriteriaMet", "status": "True"},
                        {"type": "Complete", "status": "True"},
                    ],
                }
            },
        ),
    ),
    case(
        "a replica set status is written",
        quietly(post(REPLICA_SETS, replica_set())),
        merge(f"{R}/status", {"status": {"replicas": 1, "readyReplicas": 1, "fullyLabeledReplicas": 1}}),
    ),
    case(
        "a pod status is written",
        MADE_POD,
        merge(
            f"{P}/status",
            {
                "status": {
                    "phase": "Running",
                    "podIP": "10.1.2.3",
                    "hostIP": "10.0.0.1",
                    "startTime": "2020-01-01T00:00:00Z",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [
                        {
                            "name": "main",
                            "ready": True,
                            "restartCount": 0,
                            "image": "busybox",
                            "imageID": "x",
                            "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}},
                        }
                    ],
                }
            },
        ),
    ),
    case(
        "a pod status keeps the spec",
        MADE_POD,
        merge(f"{P}/status", {"spec": {"nodeName": "x"}, "status": {"phase": "Failed", "reason": "Evicted"}}),
    ),
    case("a pod IP that is none is refused", MADE_POD, merge(f"{P}/status", {"status": {"podIP": "nonsense"}})),
    case(
        "a pod is bound to a node",
        MADE_POD,
        post(
            f"{P}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "a"},
                "target": {"kind": "Node", "name": "there"},
            },
        ),
        get(P),
    ),
    case(
        "a pod is bound once",
        MADE_POD,
        quietly(post(f"{P}/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "there"}})),
        post(f"{P}/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "elsewhere"}}),
    ),
    case(
        "a binding needs a target",
        MADE_POD,
        post(f"{P}/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node"}}),
    ),
    case(
        "a binding of a pod that is not there is refused",
        post(f"{PODS}/absent/binding", {"metadata": {"name": "absent"}, "target": {"kind": "Node", "name": "x"}}),
    ),
    case("logs of a pod that is not there are refused", get(f"{PODS}/absent/log")),
    case("logs of a pod that has no node are empty or refused", MADE_POD, get(f"{P}/log")),
    case(
        "logs of a pod whose node is not there are refused",
        quietly(post(PODS, pod(nodeName="${ns}-node"))),
        worded(get(f"{P}/log")),
        worded(get(f"{P}/log", previous="true")),
        get(f"{P}/log", container="nonsense"),
        get(f"{P}/log", tailLines="-1"),
        quietly(post(NODES, node())),
        get(f"{P}/log"),
        quietly(delete(f"{NODES}/${{ns}}-node")),
        worded(get(f"{P}/log", follow="true")),
    ),
    case("logs of a container that is not there are refused", MADE_POD, get(f"{P}/log", container="nonsense")),
    case(
        "what is asked of logs is judged before the pod is looked for",
        get(f"{PODS}/absent/log", tailLines="-1"),
        get(f"{PODS}/absent/log", tailLines="many"),
        get(f"{PODS}/absent/log", limitBytes="0"),
        get(f"{PODS}/absent/log", sinceSeconds="0"),
        get(f"{PODS}/absent/log", sinceSeconds="5", sinceTime="2020-01-01T00:00:00Z"),
        get(f"{PODS}/absent/log", sinceTime="yesterday"),
        get(f"{PODS}/absent/log", sinceTime="2020-01-01T00:00:00"),
        get(f"{PODS}/absent/log", stream="Stdout"),
        get(f"{PODS}/absent/log", stream="Stdout", limitBytes="-1", tailLines="-1"),
        get(f"{PODS}/absent/log", follow="so", sinceSeconds="5"),
    ),
    case("an unknown subresource is refused", MADE_POD, get(f"{P}/nonsense")),
    case(
        "a claim status is written",
        quietly(post(CLAIMS, claim())),
        merge(
            f"{CLAIMS}/a/status",
            {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
        ),
    ),
    case(
        "a bound claim of a class that allows it may grow or not",
        quietly(post(CLAIMS, claim(changes={"spec": {"volumeName": "v"}}))),
        quietly(merge(f"{CLAIMS}/a/status", {"status": {"phase": "Bound"}})),
        merge(f"{CLAIMS}/a", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    ),
    case(
        "a volume status is written",
        quietly(post(VOLUMES, volume())),
        merge(f"{VOLUMES}/${{ns}}-a/status", {"status": {"phase": "Bound"}}),
    ),
    case(
        "a quota status is written",
        quietly(post(QUOTAS, quota())),
        merge(f"{QUOTAS}/a/status", {"status": {"hard": {"pods": "2"}, "used": {"pods": "1"}}}),
    ),
    case(
        "a node status is written",
        quietly(post(NODES, node())),
        merge(
            f"{NODES}/${{ns}}-node/status",
            {
                "status": {
                    "capacity": {"cpu": "4", "nvidia.com/gpu": "2"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            },
        ),
    ),
    case(
        "a service status is written",
        quietly(post(SERVICES, service())),
        merge(f"{SERVICES}/a/status", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
    ),
    case(
        "a namespace status is read", quietly(post(NAMESPACES, namespace())), get(f"{NAMESPACES}/${{ns}}-other/status")
    ),
    case(
        "a namespace is finalized",
        quietly(post(NAMESPACES, namespace(), "made")),
        quietly(delete(f"{NAMESPACES}/${{ns}}-other")),
        put(f"{NAMESPACES}/${{ns}}-other/finalize", namespace(changes={"spec": {"finalizers": []}})),
        get(f"{NAMESPACES}/${{ns}}-other"),
    ),
    case("a scale of a deployment is read", MADE_DEPLOYMENT, get(f"{D}/scale")),
    case("a scale of a deployment is written", MADE_DEPLOYMENT, put(f"{D}/scale", SCALE), get(D)),
    case("a scale of a deployment is patched", MADE_DEPLOYMENT, merge(f"{D}/scale", {"spec": {"replicas": 7}}), get(D)),
    case("a scale to zero is kept", MADE_DEPLOYMENT, merge(f"{D}/scale", {"spec": {"replicas": 0}}), get(D)),
    case("a negative scale is refused", MADE_DEPLOYMENT, merge(f"{D}/scale", {"spec": {"replicas": -1}})),
    case(
        "a stale scale is a conflict",
        MADE_DEPLOYMENT,
        put(f"{D}/scale", {**SCALE, "metadata": {"name": "a", "namespace": "${ns}", "resourceVersion": "1"}}),
    ),
    case("a scale of a wrong type is refused", MADE_DEPLOYMENT, merge(f"{D}/scale", {"spec": {"replicas": "many"}})),
    case("a scale of a wrong kind is refused", MADE_DEPLOYMENT, put(f"{D}/scale", deployment())),
    case(
        "a scale of a replica set is patched",
        quietly(post(REPLICA_SETS, replica_set())),
        merge(f"{R}/scale", {"spec": {"replicas": 3}}),
        get(R),
    ),
    case("a scale of what is not there is refused", get(f"{DEPLOYMENTS}/absent/scale")),
    case(
        "a scale of a custom resource is read",
        MADE_WIDGET,
        quietly(merge(f"{W}/status", {"status": {"replicas": 2, "selector": "a=b"}})),
        get(f"{W}/scale"),
    ),
    case("a scale of a custom resource is written", MADE_WIDGET, put(f"{W}/scale", SCALE), get(W)),
    case(
        "a scale of a custom resource is patched", MADE_WIDGET, merge(f"{W}/scale", {"spec": {"replicas": 12}}), get(W)
    ),
    case(
        "a scale of a custom resource is checked by its schema",
        MADE_WIDGET,
        merge(f"{W}/scale", {"spec": {"replicas": 101}}),
    ),
    case(
        "a negative scale of a custom resource is refused", MADE_WIDGET, merge(f"{W}/scale", {"spec": {"replicas": -4}})
    ),
    case("a config map has no scale", quietly(post(CONFIGMAPS, configmap())), get(f"{CONFIGMAPS}/a/scale")),
    case(
        "the class of a pod is decided once",
        MADE_POD,
        merge(f"{P}/status", {"status": {"qosClass": "Guaranteed"}}),
        merge(f"{P}/status", {"status": {"qosClass": None, "phase": "Running"}}),
    ),
    case("an eviction deletes a pod", MADE_POD, post(f"{P}/eviction", EVICTION), get(P)),
    case(
        "an eviction gives its grace",
        quietly(post(PODS, pod(nodeName="there"))),
        post(f"{P}/eviction", EVICTION),
        get(P),
    ),
    case(
        "an eviction may take other options",
        quietly(post(PODS, pod(nodeName="there"))),
        post(f"{P}/eviction", {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 0}}),
        get(P),
    ),
    case(
        "an eviction of another pod is refused",
        MADE_POD,
        post(f"{P}/eviction", {**EVICTION, "metadata": {"name": "b"}}),
    ),
    case("an eviction without a name", MADE_POD, post(f"{P}/eviction", {**EVICTION, "metadata": {}})),
    case(
        "an eviction of what is not there is refused",
        post(f"{PODS}/absent/eviction", {**EVICTION, "metadata": {"name": "absent"}}),
    ),
    case("a dry eviction leaves the pod", MADE_POD, post(f"{P}/eviction", EVICTION, dryRun="All"), get(P)),
]
