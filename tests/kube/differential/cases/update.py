"""PUT: optimistic locking, identity, no-ops, immutable fields."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, edit, get, post, put, quietly, watch, worded
from kube.differential.objects import (
    BUILDERS,
    CLAIMS,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    SLICES,
    STORAGE_CLASSES,
    claim,
    configmap,
    container,
    deployment,
    job,
    lease,
    namespace,
    pod,
    priority_class,
    quota,
    role_binding,
    secret,
    service,
    slice_,
    storage_class,
)


def changed(name: str, path: str, body: Json, changes: Json) -> Case:
    """A case that makes `body` and then updates it with `changes`."""
    return case(name, post(path, body, "made"), edit(f"{path}/{body['metadata']['name']}", "made", changes))


EVERY_KIND = [
    case(
        f"a {built()['kind']} that is put back unchanged stays as it is",
        quietly(post(path, built(), "made")),
        # The real server writes a Job or a claim once more although nothing changed: hence "again".
        put(f"{path}/{built()['metadata']['name']}", "${made}", "again"),
        edit(f"{path}/{built()['metadata']['name']}", "again", {"metadata": {"labels": {"new": "label"}}}),
    )
    for path, built in BUILDERS.items()
]

CASES = [
    *EVERY_KIND,
    changed("an update replaces data", CONFIGMAPS, configmap(), {"data": {"color": "green", "size": "big"}}),
    case(
        "an update without resourceVersion overwrites",
        post(CONFIGMAPS, configmap()),
        put(f"{CONFIGMAPS}/a", configmap(changes={"data": {"color": "green"}})),
    ),
    case(
        "a stale update is refused with a conflict",
        post(CONFIGMAPS, configmap(), "made"),
        edit(f"{CONFIGMAPS}/a", "made", {"data": {"color": "green"}}),
        worded(edit(f"{CONFIGMAPS}/a", "made", {"data": {"color": "red"}})),
    ),
    case(
        "a stale update is refused although it changes nothing",
        post(CONFIGMAPS, configmap(), "made"),
        edit(f"{CONFIGMAPS}/a", "made", {"data": {"color": "green"}}, "second"),
        edit(f"{CONFIGMAPS}/a", "second", {"metadata": {"resourceVersion": "${made.metadata.resourceVersion}"}}),
    ),
    case(
        "an update that changes nothing sends no event",
        post(CONFIGMAPS, configmap(), "made"),
        put(f"{CONFIGMAPS}/a", "${made}"),
        edit(f"{CONFIGMAPS}/a", "made", {"data": {"color": "green"}}),
        watch(CONFIGMAPS, 2, resourceVersion="${made.metadata.resourceVersion}", fieldSelector="metadata.name=a"),
    ),
    changed("an update with another uid is refused", CONFIGMAPS, configmap(), {"metadata": {"uid": "another"}}),
    changed("an update with another name is refused", CONFIGMAPS, configmap(), {"metadata": {"name": "b"}}),
    changed("an update without a name is refused", CONFIGMAPS, configmap(), {"metadata": {"name": None}}),
    changed("an update with another namespace is refused", CONFIGMAPS, configmap(), {"metadata": {"namespace": "b"}}),
    changed("an update with another kind is refused", CONFIGMAPS, configmap(), {"kind": "Secret"}),
    changed(
        "creationTimestamp cannot be changed",
        CONFIGMAPS,
        configmap(),
        {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}},
    ),
    changed("generation cannot be changed", DEPLOYMENTS, deployment(), {"metadata": {"generation": 55}}),
    changed(
        "deletionTimestamp cannot be set",
        CONFIGMAPS,
        configmap(),
        {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}},
    ),
    changed("generateName can be set later", CONFIGMAPS, configmap(), {"metadata": {"generateName": "later-"}}),
    changed(
        "a resourceVersion that is no number is refused",
        CONFIGMAPS,
        configmap(),
        {"metadata": {"resourceVersion": "abc"}},
    ),
    changed(
        "a resourceVersion of zero overwrites",
        CONFIGMAPS,
        configmap(),
        {"metadata": {"resourceVersion": "0"}, "data": {"x": "y"}},
    ),
    changed(
        "a resourceVersion of the future is a conflict",
        CONFIGMAPS,
        configmap(),
        {"metadata": {"resourceVersion": "99999999"}, "data": {"x": "y"}},
    ),
    case("an update of what is not there is refused", worded(put(f"{CONFIGMAPS}/absent", configmap("absent")))),
    case("an update of a pod that is not there is refused", put(f"{PODS}/absent", pod("absent"))),
    case("an update creates a lease that is not there", put(f"{LEASES}/absent", lease("absent"))),
    case(
        "an update with a resourceVersion does not create",
        put(f"{LEASES}/absent", lease("absent", {"metadata": {"resourceVersion": "5"}})),
    ),
    case(
        "status is untouched by an update of the spec",
        post(DEPLOYMENTS, deployment(), "made"),
        edit(f"{DEPLOYMENTS}/a/status", "made", {"status": {"replicas": 3}}, "second"),
        edit(f"{DEPLOYMENTS}/a", "second", {"status": {"replicas": 9}, "spec": {"replicas": 2}}),
    ),
    changed("an immutable config map can be made so", CONFIGMAPS, configmap(), {"immutable": True}),
    changed(
        "an immutable config map keeps its data",
        CONFIGMAPS,
        configmap(changes={"immutable": True}),
        {"data": {"x": "y"}},
    ),
    changed(
        "an immutable config map stays immutable",
        CONFIGMAPS,
        configmap(changes={"immutable": True}),
        {"immutable": None},
    ),
    changed(
        "labels of an immutable config map may change",
        CONFIGMAPS,
        configmap(changes={"immutable": True}),
        {"metadata": {"labels": {"a": "b"}}},
    ),
    changed(
        "an immutable secret keeps its data", SECRETS, secret(changes={"immutable": True}), {"data": {"x": "eQ=="}}
    ),
    changed("the type of a secret is immutable", SECRETS, secret(), {"type": "example.com/other"}),
    changed(
        "the selector of a deployment is immutable",
        DEPLOYMENTS,
        deployment(),
        {"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}},
    ),
    changed(
        "the template labels must keep matching the selector",
        DEPLOYMENTS,
        deployment(),
        {"spec": {"template": {"metadata": {"labels": {"app": "b"}}}}},
    ),
    changed(
        "the image of a deployment may change",
        DEPLOYMENTS,
        deployment(),
        {"spec": {"template": {"spec": {"containers": [container(image="busybox:2")]}}}},
    ),
    changed(
        "the strategy of a deployment may change to Recreate",
        DEPLOYMENTS,
        deployment(),
        {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
    ),
    changed(
        "Recreate does not go with rollingUpdate",
        DEPLOYMENTS,
        deployment(),
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
    changed(
        "the template of a job is immutable",
        JOBS,
        job(),
        {"spec": {"template": {"spec": {"containers": [container(image="b")]}}}},
    ),
    changed("the completions of a job are immutable", JOBS, job(), {"spec": {"completions": 4}}),
    changed("the parallelism of a job may change", JOBS, job(), {"spec": {"parallelism": 4}}),
    changed("a job may be suspended", JOBS, job(), {"spec": {"suspend": True}}),
    changed("the selector of a job is immutable", JOBS, job(), {"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
    changed(
        "the containers of a pod are immutable", PODS, pod(), {"spec": {"containers": [container(command=["sh"])]}}
    ),
    changed("the image of a pod may change", PODS, pod(), {"spec": {"containers": [container(image="busybox:2")]}}),
    changed(
        "a container cannot be added to a pod",
        PODS,
        pod(),
        {"spec": {"containers": [container(), container(name="b")]}},
    ),
    changed("the restart policy of a pod is immutable", PODS, pod(), {"spec": {"restartPolicy": "Never"}}),
    changed("the node of a pod cannot be set by update", PODS, pod(), {"spec": {"nodeName": "there"}}),
    changed(
        "tolerations may be added to a pod",
        PODS,
        pod(tolerations=[{"operator": "Exists"}]),
        {"spec": {"tolerations": [{"operator": "Exists"}, {"key": "k", "operator": "Exists"}]}},
    ),
    changed("a default toleration that is left out comes back", PODS, pod(), {"spec": {"tolerations": []}}),
    changed(
        "a toleration of one's own cannot be taken away",
        PODS,
        pod(tolerations=[{"key": "k", "operator": "Exists"}]),
        {"spec": {"tolerations": []}},
    ),
    changed(
        "the seconds of a toleration may change",
        PODS,
        pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
        {"spec": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}]}},
    ),
    changed("a priority that is left out stays", PODS, pod(), {"spec": {"priority": None, "preemptionPolicy": None}}),
    changed("a priority cannot change", PODS, pod(), {"spec": {"priority": 7}}),
    changed("a deadline may be set on a pod", PODS, pod(), {"spec": {"activeDeadlineSeconds": 30}}),
    changed(
        "the clusterIP of a service is immutable",
        SERVICES,
        service(),
        {"spec": {"clusterIP": "10.96.200.200", "clusterIPs": ["10.96.200.200"]}},
    ),
    changed(
        "the ports of a service may change",
        SERVICES,
        service(),
        {"spec": {"ports": [{"port": 81, "targetPort": "http"}]}},
    ),
    changed("the selector of a service may change", SERVICES, service(), {"spec": {"selector": {"app": "b"}}}),
    changed(
        "a service may become headless only at creation",
        SERVICES,
        service(),
        {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
    ),
    changed("a service may become a node port", SERVICES, service(), {"spec": {"type": "NodePort"}}),
    case(
        "a service updated without its clusterIP keeps it",
        post(SERVICES, service(), "made"),
        edit(f"{SERVICES}/a", "made", {"spec": {"clusterIP": None, "clusterIPs": None, "ports": [{"port": 90}]}}),
    ),
    changed("the class of a claim is immutable", CLAIMS, claim(), {"spec": {"storageClassName": "slow"}}),
    changed("the access modes of a claim are immutable", CLAIMS, claim(), {"spec": {"accessModes": ["ReadOnlyMany"]}}),
    changed("an unbound claim cannot grow", CLAIMS, claim(), {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    changed("a claim cannot shrink", CLAIMS, claim(), {"spec": {"resources": {"requests": {"storage": "500Mi"}}}}),
    changed("the volume of a claim may be set once", CLAIMS, claim(), {"spec": {"volumeName": "disk-1"}}),
    changed("the value of a priority class is immutable", PRIORITY_CLASSES, priority_class(), {"value": 7}),
    changed(
        "the preemption policy of a priority class is immutable",
        PRIORITY_CLASSES,
        priority_class(),
        {"preemptionPolicy": "Never"},
    ),
    changed(
        "the description of a priority class may change", PRIORITY_CLASSES, priority_class(), {"description": "words"}
    ),
    changed(
        "the provisioner of a storage class is immutable",
        STORAGE_CLASSES,
        storage_class(),
        {"provisioner": "example.com/other"},
    ),
    changed(
        "the parameters of a storage class are immutable", STORAGE_CLASSES, storage_class(), {"parameters": {"a": "b"}}
    ),
    changed(
        "the reclaim policy of a storage class is immutable",
        STORAGE_CLASSES,
        storage_class(),
        {"reclaimPolicy": "Retain"},
    ),
    changed(
        "expansion of a storage class may be allowed later",
        STORAGE_CLASSES,
        storage_class(),
        {"allowVolumeExpansion": True},
    ),
    changed("the role of a binding is immutable", ROLE_BINDINGS, role_binding(), {"roleRef": {"name": "b"}}),
    changed(
        "the address type of a slice is immutable",
        SLICES,
        slice_(),
        {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]},
    ),
    changed("the scopes of a quota are immutable", QUOTAS, quota(), {"spec": {"scopes": ["BestEffort"]}}),
    changed(
        "the hard limits of a quota may change", QUOTAS, quota(), {"spec": {"hard": {"pods": "9", "services": "1"}}}
    ),
    changed("the finalizers of a namespace are kept on update", NAMESPACES, namespace(), {"spec": {"finalizers": []}}),
    case(
        "a put of the list path is refused",
        put(CONFIGMAPS, configmap()),
    ),
    case(
        "what was read is what was written",
        post(CONFIGMAPS, configmap(), "made"),
        edit(f"{CONFIGMAPS}/a", "made", {"data": None, "binaryData": {"b": "AAEC"}}),
        get(f"{CONFIGMAPS}/a"),
    ),
]
