"""Labels, annotations, owners and finalizers."""

from __future__ import annotations

from kube.differential.call import Call, Json, case, merge, post
from kube.differential.objects import CONFIGMAPS, DEPLOYMENTS, PODS, configmap, deployment, pod


def made_with(metadata: Json) -> Call:
    return post(CONFIGMAPS, configmap(changes={"metadata": metadata}))


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "0c5b5fe4-0000-0000-0000-000000000001"}

CASES = [
    case("labels with a prefix are accepted", made_with({"labels": {"example.com/tier": "front.end_1"}})),
    case("an empty label value is accepted", made_with({"labels": {"a": ""}})),
    case("a label value of 63 letters is accepted", made_with({"labels": {"a": "x" * 63}})),
    case("a label value of 64 letters is refused", made_with({"labels": {"a": "x" * 64}})),
    case("a label value with a space is refused", made_with({"labels": {"a": "b c"}})),
    case("a label value may not end in a dash", made_with({"labels": {"a": "b-"}})),
    case("a label key with a space is refused", made_with({"labels": {"a b": "c"}})),
    case("a label key of 64 letters is refused", made_with({"labels": {"k" * 64: "c"}})),
    case("a label key with two slashes is refused", made_with({"labels": {"a/b/c": "c"}})),
    case("a label key with an empty prefix is refused", made_with({"labels": {"/b": "c"}})),
    case("a label prefix in capitals is refused", made_with({"labels": {"Example.com/b": "c"}})),
    case("an empty label key is refused", made_with({"labels": {"": "c"}})),
    case("several bad labels are all named", made_with({"labels": {"a b": "c", "d": "e f", "ok": "ok"}})),
    case("a label value that is a number is refused", made_with({"labels": {"a": 1}})),
    case("labels that are a list are refused", made_with({"labels": ["a"]})),
    case("an annotation key in capitals is accepted", made_with({"annotations": {"Example.com/Word": "x y z"}})),
    case("an annotation key with a space is refused", made_with({"annotations": {"a b": "c"}})),
    case("annotations over 256 KiB are refused", made_with({"annotations": {"a": "x" * (256 * 1024)}})),
    case("an annotation value that is a boolean is refused", made_with({"annotations": {"a": True}})),
    case(
        "a null label is dropped",
        made_with({"labels": {"a": "b"}}),
        merge(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"a": None}}}),
    ),
    case("an owner reference is kept", made_with({"ownerReferences": [OWNER]})),
    case(
        "two different owners are kept", made_with({"ownerReferences": [OWNER, {**OWNER, "name": "b", "uid": "other"}]})
    ),
    case("an owner reference needs a uid", made_with({"ownerReferences": [{**OWNER, "uid": ""}]})),
    case("an owner reference needs a name", made_with({"ownerReferences": [{**OWNER, "name": ""}]})),
    case("an owner reference needs a kind", made_with({"ownerReferences": [{**OWNER, "kind": ""}]})),
    case("an owner reference needs a version", made_with({"ownerReferences": [{**OWNER, "apiVersion": ""}]})),
    case("an empty owner reference is refused with all its faults", made_with({"ownerReferences": [{}]})),
    case(
        "only one owner may be the controller",
        made_with({"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "other", "controller": True}]}),
    ),
    case("an event may not own anything", made_with({"ownerReferences": [{**OWNER, "kind": "Event"}]})),
    case(
        "a duplicate owner is accepted with a warning",
        made_with({"ownerReferences": [OWNER, OWNER]}),
    ),
    case("a qualified finalizer is kept", made_with({"finalizers": ["example.com/hold"]})),
    case("an unqualified finalizer is refused", made_with({"finalizers": ["hold"]})),
    case("a finalizer with a space is refused", made_with({"finalizers": ["example.com/a b"]})),
    case("the well-known finalizers are accepted", made_with({"finalizers": ["foregroundDeletion"]})),
    case(
        "orphan and foreground finalizers exclude each other",
        made_with({"finalizers": ["foregroundDeletion", "orphan"]}),
    ),
    case("finalizers that are a string are refused", made_with({"finalizers": "example.com/hold"})),
    case(
        "a finalizer of one word on a pod warns or is refused",
        post(PODS, pod(changes={"metadata": {"finalizers": ["example.com/a", "example.com/a"]}})),
    ),
    case(
        "the labels of a template are checked",
        post(
            DEPLOYMENTS, deployment(changes={"spec": {"template": {"metadata": {"labels": {"app": "a", "b": "c d"}}}}})
        ),
    ),
    case(
        "a label change does not raise the generation",
        post(DEPLOYMENTS, deployment()),
        merge(f"{DEPLOYMENTS}/a", {"metadata": {"labels": {"x": "y"}}}),
    ),
    case(
        "a spec change raises the generation",
        post(DEPLOYMENTS, deployment()),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"replicas": 4}}),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"replicas": 4}}),
    ),
    case(
        "an empty map of labels is dropped",
        made_with({"labels": {}, "annotations": {}, "finalizers": []}),
    ),
]
