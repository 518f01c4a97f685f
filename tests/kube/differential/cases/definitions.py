"""CRDs themselves: what a definition must be, how it begins and ends to be served."""

from __future__ import annotations

from kube.differential.call import Call, Case, Json, case, delete, get, merge, post, quietly, until
from kube.differential.filling import merged
from kube.differential.objects import CRDS, widget
from kube.differential.widget_crd import crd, plain_crd

NAME = f"{CRDS}/widgets.${{ns}}.example.com"
SERVED = "/apis/${ns}.example.com/v1/namespaces/${ns}/widgets"
MADE = quietly(post(CRDS, crd()))
READY = until(200, get(SERVED))


def own_widget(changes: Json = None) -> Json:
    return widget(changes=merged({"apiVersion": "${ns}.example.com/v1"}, changes or {}))


def defined(name: str, changes: Json = None, version: Json = None) -> Case:
    return case(name, post(CRDS, crd(changes=changes, version=version)))


def schema(name: str, properties: Json) -> Case:
    """A CRD whose spec has these properties."""
    spec = {"type": "object", "properties": properties}
    return case(name, post(CRDS, plain_crd({"type": "object", "properties": {"spec": spec}})))


CASES = [
    case(
        "a definition is served when it is established",
        quietly(post(CRDS, crd())),
        READY,
        post(SERVED, own_widget()),
        get(SERVED),
    ),
    case("an established definition says so", MADE, READY, Call(method="GET", path=NAME)),
    case(
        "a definition has a group of its own",
        MADE,
        READY,
        get("/apis/${ns}.example.com"),
        get("/apis/${ns}.example.com/v1"),
    ),
    case("a definition without a schema is refused", post(CRDS, crd(version={"schema": None}))),
    defined("a name must be plural and group", {"metadata": {"name": "wrong.${ns}.example.com"}}),
    defined("a group is required", {"spec": {"group": ""}}),
    defined("a scope is required", {"spec": {"scope": None}}),
    defined("a scope is known", {"spec": {"scope": "Galactic"}}),
    defined("a cluster scope is kept", {"spec": {"scope": "Cluster"}}),
    defined("names are required", {"spec": {"names": {"plural": None, "kind": None}}}),
    defined("a kind is a word", {"spec": {"names": {"kind": "not a kind"}}}),
    defined("versions are required", {"spec": {"versions": []}}),
    defined(
        "names are filled in",
        {"spec": {"names": {"singular": None, "listKind": None, "shortNames": None, "categories": None}}},
    ),
    defined("one version must be stored", version={"storage": False}),
    defined("a version name is checked", version={"name": "1"}),
    defined("an unknown conversion is refused", {"spec": {"conversion": {"strategy": "Magic"}}}),
    defined("a printer column needs a path", version={"additionalPrinterColumns": [{"name": "A", "type": "string"}]}),
    defined(
        "a printer column needs a known type",
        version={"additionalPrinterColumns": [{"name": "A", "type": "magic", "jsonPath": ".a"}]},
    ),
    defined(
        "a scale needs its paths",
        version={"subresources": {"scale": {"specReplicasPath": None, "statusReplicasPath": None}}},
    ),
    defined("a scale path is checked", version={"subresources": {"scale": {"specReplicasPath": "spec.size"}}}),
    defined("a preserving definition is refused", {"spec": {"preserveUnknownFields": True}}),
    schema("a property needs a type", {"a": {"description": "no type"}}),
    schema("a property type is known", {"a": {"type": "magic"}}),
    schema("an array needs items", {"a": {"type": "array"}}),
    schema("a pattern must be one", {"a": {"type": "string", "pattern": "("}}),
    schema("a default must be valid", {"a": {"type": "integer", "default": "x"}}),
    schema("a default must be within its limits", {"a": {"type": "integer", "maximum": 3, "default": 9}}),
    schema(
        "a list map needs keys", {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}
    ),
    schema(
        "a list map key must be a property",
        {
            "a": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"x": {"type": "string"}}},
            }
        },
    ),
    schema(
        "properties and additional properties exclude each other",
        {"a": {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}},
    ),
    schema(
        "an unknown list type is refused",
        {"a": {"type": "array", "x-kubernetes-list-type": "heap", "items": {"type": "string"}}},
    ),
    case("a root schema is an object", post(CRDS, plain_crd({"type": "string"}))),
    case(
        "a reference in a schema is refused",
        post(CRDS, plain_crd({"type": "object", "properties": {"a": {"$ref": "#/b"}}})),
    ),
    case("a definition is there already", MADE, post(CRDS, crd())),
    case(
        "the scope of a definition is immutable",
        quietly(post(CRDS, crd(), "made")),
        READY,
        merge(NAME, {"spec": {"scope": "Cluster"}}),
    ),
    case("the group of a definition is immutable", MADE, READY, merge(NAME, {"spec": {"group": "other.example.com"}})),
    case(
        "the kind of an established definition is immutable",
        MADE,
        READY,
        merge(NAME, {"spec": {"names": {"kind": "Gadget"}}}),
    ),
    case(
        "short names of a definition may change", MADE, READY, merge(NAME, {"spec": {"names": {"shortNames": ["wdg"]}}})
    ),
    case("the status of a definition is read", MADE, READY, get(f"{NAME}/status")),
    case(
        "an empty list in the status of a definition stays one",
        MADE,
        READY,
        merge(f"{NAME}/status", {"status": {"conditions": []}}),
        post(CRDS, crd(changes={"metadata": {"name": "other"}, "status": {"conditions": []}}), dryRun="All"),
    ),
    case(
        "no list in the status of a definition", MADE, READY, merge(f"{NAME}/status", {"status": {"conditions": None}})
    ),
    case(
        "a deleted definition takes its resources along",
        MADE,
        READY,
        quietly(post(SERVED, own_widget())),
        quietly(delete(NAME)),
        until(404, get(NAME)),
        until(404, get(SERVED)),
    ),
    case(
        "a resource of a definition without a scale has none",
        quietly(post(CRDS, plain_crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))),
        READY,
        post(SERVED, own_widget({"status": {"phase": "kept"}})),
        get(f"{SERVED}/a/scale"),
        get(f"{SERVED}/a/status"),
    ),
    case(
        "without a status subresource every change bumps the generation",
        quietly(post(CRDS, plain_crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))),
        READY,
        quietly(post(SERVED, own_widget())),
        merge(f"{SERVED}/a", {"status": {"phase": "x"}}),
    ),
    case("a served version may be switched off", MADE, READY, get("/apis/${ns}.example.com/v2/widgets")),
    case(
        "a definition may print the default columns",
        quietly(post(CRDS, plain_crd({"type": "object"}))),
        READY,
        quietly(post(SERVED, own_widget({"spec": None}))),
        Call(method="GET", path=SERVED, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
    ),
    case(
        "a cluster-scoped resource has no namespace",
        quietly(post(CRDS, crd(changes={"spec": {"scope": "Cluster"}}))),
        until(200, get("/apis/${ns}.example.com/v1/widgets")),
        post("/apis/${ns}.example.com/v1/widgets", own_widget()),
        get(SERVED),
    ),
]
