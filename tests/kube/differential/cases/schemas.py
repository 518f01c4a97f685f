"""Schemas of definitions: what is structural, what rules may say, what several versions share. Nothing is kept."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, post
from kube.differential.objects import CRDS
from kube.differential.widget_crd import crd, plain_crd

TEXT: Json = {"type": "string"}
OTHERS: tuple[Json, ...] = (True, False, {}, [], "x", 5, {"type": 5})
KEPT = {"rule": "self == oldSelf"}
NAMED: Json = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}


def root(name: str, *schemas: Json) -> Case:
    """Definitions with these schemas at their root."""
    return case(name, *(post(CRDS, plain_crd(schema), dryRun="All") for schema in schemas))


def within(name: str, *schemas: Json) -> Case:
    """Definitions whose `spec.a` has these schemas."""
    return root(name, *(of({"spec": of({"a": schema, "b": TEXT})}) for schema in schemas))


def of(properties: Json, **more: Json) -> Json:
    return {"type": "object", "properties": properties, **more}


def listed(items: Json = TEXT, kind: Json = "map", **more: Json) -> Json:
    return {"type": "array", "items": items, "x-kubernetes-list-type": kind, **more}


def ruled(schema: Json, *rules: Json) -> Json:
    return {**schema, "x-kubernetes-validations": list(rules)}


def versions(name: str, *changes: Json, **spec: Json) -> Case:
    """A definition of several versions, of which the first is stored."""
    schema = {"openAPIV3Schema": of({"spec": of({"a": TEXT})})}
    base = {"served": True, "storage": False, "schema": schema}
    made = [{**base, "name": f"v{at + 1}", "storage": at == 0, **change} for at, change in enumerate(changes)]
    return case(name, post(CRDS, crd(changes={"spec": {"versions": made, **spec}}), dryRun="All"))


def version(name: str, **fields: Json) -> Case:
    return versions(name, fields)


FIELDS: Json = of({"spec": of({"a": TEXT, "n": {"type": "integer"}, "l": {"type": "array", "items": TEXT}})})
OTHER = {"schema": {"openAPIV3Schema": of({"spec": of({"b": {"type": "text"}})})}}
COLUMN = {"name": "A", "type": "string", "jsonPath": ".spec.a"}

CASES = [
    root(
        "a root is an object", {"type": "string"}, {"type": "text"}, {}, {"x-kubernetes-preserve-unknown-fields": True}
    ),
    root("a root is not nullable", {"type": "object", "nullable": True}),
    root("a root has no other properties", {"type": "object", "additionalProperties": TEXT}),
    root("a root names its kind as a text", of({"kind": {"type": "integer"}, "apiVersion": of({})})),
    root(
        "a root says of metadata only what names are",
        of({"metadata": {"type": "object"}}),
        of({"metadata": of({"name": {"type": "string", "pattern": "^a"}})}),
        of({"metadata": of({"labels": of({})})}),
        of({"metadata": {"type": "object", "description": "words"}}),
        of({"metadata": {}}),
        of({"metadata": TEXT}),
        of({"metadata": of({"name": {"type": "string", "default": "x"}})}),
        of({"kind": {"type": "string", "default": "x"}}),
    ),
    within("a type is one of a few", {"type": "text"}, {"type": "null"}, {"type": ""}, {}, None),
    within("what JSON Schema has and structures have not is refused", *({name: {}} for name in ("definitions",))),
    within("a reference is refused", {"type": "object", "$ref": "#/x"}, {"type": "string", "id": "x"}),
    within("patterns of properties are refused", {"type": "object", "patternProperties": {"a": TEXT}}),
    within("dependencies are refused", {"type": "object", "dependencies": {"a": ["b"], "c": {"type": "string"}}}),
    within("items after items are refused", {"type": "array", "items": TEXT, "additionalItems": True}),
    within("items are one schema", *({"type": "array", "items": items} for items in ([TEXT], [], [TEXT, {}], "x", 5))),
    within(
        "items of a wrong type are refused", *({"type": "array", "items": items} for items in ([5], ["x"], {"type": 5}))
    ),
    within(
        "additional properties are a schema or a truth value",
        *({"type": "object", "additionalProperties": value} for value in OTHERS),
    ),
    within(
        "additional properties stand alone",
        of({"x": TEXT}, additionalProperties=TEXT),
        of({"x": TEXT}, additionalProperties=True),
    ),
    within("unique items are refused", {"type": "array", "items": TEXT, "uniqueItems": True}),
    within(
        "unknown fields are preserved or not mentioned",
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
        {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-int-or-string": True},
    ),
    within(
        "an embedded resource is an object with fields",
        {"type": "object", "x-kubernetes-embedded-resource": True},
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {"type": "string", "x-kubernetes-embedded-resource": True},
        of({"kind": {"type": "integer"}, "metadata": TEXT}, **{"x-kubernetes-embedded-resource": True}),
    ),
    within(
        "a number or a text is written in one way",
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
    ),
    within(
        "checks of values say nothing of structure",
        *(
            {"type": "object", "anyOf": [check]}
            for check in (
                {"type": "object"},
                {"description": "words", "title": "words"},
                {"nullable": True},
                {"default": 5},
                {"additionalProperties": TEXT},
                {"x-kubernetes-preserve-unknown-fields": True},
                {"x-kubernetes-list-type": "set"},
                {"x-kubernetes-validations": [KEPT]},
                {"required": ["x"]},
            )
        ),
        {"type": "string", "not": {"type": "string"}},
        {"type": "string", "oneOf": [{"pattern": "("}]},
    ),
    within(
        "checks of values name what is there",
        of({"x": TEXT}, anyOf=[{"properties": {"x": {"minLength": 1}}}]),
        of({"x": TEXT}, anyOf=[{"properties": {"y": {"minLength": 1}}}]),
        {"type": "array", "items": TEXT, "allOf": [{"items": {"minLength": 1}}]},
        {"type": "object", "allOf": [{"items": {"minLength": 1}}]},
        of({"x": TEXT}, allOf=[{"properties": {"metadata": {"minLength": 1}}}]),
    ),
    within(
        "a default fits its schema",
        {"type": "string", "default": 5},
        of({"x": TEXT}, default={"x": 5}),
        of({"x": TEXT}, default={"y": "z"}),
        of({"x": TEXT}, default={"x": "z"}, required=["x"]),
        of({"x": TEXT}, default={}, required=["x"]),
        {"type": "array", "items": {"type": "integer", "default": "x"}},
        {"type": "object", "additionalProperties": {"type": "integer", "default": "x"}},
        {"type": "string", "enum": ["a"], "default": "b"},
    ),
    within(
        "a map type is known and of objects",
        *(
            {"type": kind, "x-kubernetes-map-type": of_map}
            for kind, of_map in (("object", "atomic"), ("object", "x"), ("string", "atomic"))
        ),
    ),
    within(
        "a list type is known and of lists",
        {"type": "string", "x-kubernetes-list-type": "set"},
        {"x-kubernetes-list-type": "set"},
        listed(kind="x"),
    ),
    within(
        "a set holds what is whole",
        listed(kind="set"),
        listed(of({}), "set"),
        listed(of({}, **{"x-kubernetes-map-type": "atomic"}), "set"),
        listed(listed(TEXT, "set"), "set"),
        listed({"type": "string", "nullable": True}, "set"),
    ),
    within(
        "a map list holds objects with keys",
        *(
            listed(items, **{"x-kubernetes-list-map-keys": keys})
            for items, keys in (
                (NAMED, ["name"]),
                (NAMED, []),
                (NAMED, ["other"]),
                (NAMED, ["name", "name"]),
                (TEXT, ["name"]),
                (of({"name": TEXT}), ["name"]),
                (of({"name": {"type": "string", "default": "x"}}), ["name"]),
                (of({"name": of({})}, required=["name"]), ["name"]),
                (of({"name": {"type": "string", "nullable": True}}, required=["name"]), ["name"]),
                ({**NAMED, "nullable": True}, ["name"]),
                (None, ["name"]),
                ([NAMED], ["name"]),
            )
        ),
        {"type": "array", "items": NAMED, "x-kubernetes-list-map-keys": ["name"]},
        listed(NAMED, "set", **{"x-kubernetes-list-map-keys": ["name"]}),
    ),
    within(
        "a rule is a rule",
        ruled(TEXT, {}),
        ruled(TEXT, {"rule": " "}),
        ruled(TEXT, {"rule": "nonsense"}),
        ruled(TEXT, {"rule": "self"}),
        ruled(TEXT, {"rule": "self == 5"}),
        ruled(TEXT, {"rule": "self == 'x'"}),
        ruled(TEXT, {"rule": "self =="}),
        ruled(TEXT, {**KEPT, "message": " "}),
        ruled(TEXT, {**KEPT, "message": "a\nb"}),
        ruled(TEXT, {**KEPT, "reason": "Because"}),
        ruled(TEXT, {**KEPT, "reason": "FieldValueForbidden"}),
        ruled(of({"x": TEXT}), {**KEPT, "fieldPath": ".x"}),
        ruled(of({"x": TEXT}), {**KEPT, "fieldPath": ".y"}),
        ruled(of({"x": TEXT}), {**KEPT, "fieldPath": "x"}),
    ),
    within(
        "a rule reads what is there",
        ruled(of({"x": TEXT}), {"rule": "has(self.x)"}),
        ruled(of({"x": TEXT}), {"rule": "has(self.y)"}),
        ruled(of({"x": TEXT}), {"rule": "self.y == 'z'"}),
        ruled(of({"x": TEXT, "y": {"type": "integer"}}), {"rule": "self.x == self.y"}),
        ruled(of({"x": {"type": "boolean"}}), {"rule": "self.x"}),
        ruled(of({"x": {"type": "boolean"}}), {"rule": "!self.x || self.x"}),
        ruled(of({"x": TEXT}), {"rule": "self.x || true"}),
        ruled(of({"x": {"x-kubernetes-int-or-string": True}}), {"rule": "self.x == 5"}),
        ruled({"type": "object", "additionalProperties": TEXT}, {"rule": "self.x == 'y'"}),
        ruled(of({"x": {"type": "text"}}), {"rule": "has(self.x)"}),
    ),
    root(
        "a rule at the root knows the names",
        ruled(of({"spec": of({})}), {"rule": "self.metadata.name == 'x'"}),
        ruled(of({"spec": of({})}), {"rule": "self.metadata.labels == 'x'"}),
        ruled(of({"spec": of({})}), {"rule": "self.kind == 'x' && has(self.spec)"}),
    ),
    root(
        "rules under a type that is none cannot be read",
        of({"spec": ruled({"type": "text", "properties": {"a": ruled(TEXT, KEPT)}}, KEPT)}),
        of({"spec": {"type": "text", "properties": {"a": ruled(TEXT, KEPT)}}}),
    ),
    version(
        "a column is named, typed and found",
        additionalPrinterColumns=[{}, {"name": "A", "type": "text", "format": "x"}],
    ),
    version("the path of a column begins with a dot", additionalPrinterColumns=[{**COLUMN, "jsonPath": "spec"}]),
    version("the format of a column is known", additionalPrinterColumns=[{**COLUMN, "format": "int32"}]),
    version(
        "paths of a scale are under spec and status",
        subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": "x", "labelSelectorPath": ".x"}},
    ),
    version(
        "a selector of a scale may be in the spec",
        subresources={
            "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x", "labelSelectorPath": ".spec.x"}
        },
    ),
    version("the status subresource has no settings", subresources={"status": "text"}),
    version(
        "with a status the root is bare",
        subresources={"status": {}},
        schema={"openAPIV3Schema": of({}, minProperties=1)},
    ),
    version(
        "with a status the root is an object",
        subresources={"status": {}},
        schema={"openAPIV3Schema": {"type": "string"}},
    ),
    version("a warning needs a deprecation", deprecationWarning="soon"),
    version("a warning is not empty", deprecated=True, deprecationWarning=""),
    version("a warning is short", deprecated=True, deprecationWarning="x" * 257),
    *(
        version(
            f"a field is selectable: {path}", schema={"openAPIV3Schema": FIELDS}, selectableFields=[{"jsonPath": path}]
        )
        for path in (".spec.a", ".spec.n", ".spec.l", ".spec.x", "spec.a", "", ".metadata.name")
    ),
    version(
        "a field is selectable once", schema={"openAPIV3Schema": FIELDS}, selectableFields=2 * [{"jsonPath": ".spec.a"}]
    ),
    versions("versions have different names", {}, {"name": "v1"}),
    versions("versions are all stored", {}, {"storage": True}),
    versions("what is wrong in all versions is told once", OTHER, OTHER),
    versions("what is wrong in one version is told there", {}, OTHER),
    versions("columns that are wrong in one version are told there", {}, {"additionalPrinterColumns": [{}]}),
    versions("columns that are wrong in all versions are told once", *(2 * [{"additionalPrinterColumns": [{}]}])),
    versions("a schema is missing in one version", {}, {"schema": None}),
    versions("a conversion has a strategy", {}, conversion={}),
    case(
        "the name of a definition is not made up",
        post(CRDS, crd(changes={"metadata": {"name": None, "generateName": "x-"}}), dryRun="All"),
    ),
    case(
        "the names of a definition are words",
        post(
            CRDS,
            crd(
                changes={
                    "spec": {"names": {"shortNames": ["A"], "categories": ["-"], "singular": "A", "listKind": "Widget"}}
                }
            ),
            dryRun="All",
        ),
    ),
    case(
        "a group of the community needs its approval",
        post(CRDS, crd("${ns}.k8s.io"), dryRun="All"),
        post(
            CRDS, crd("${ns}.k8s.io", {"metadata": {"annotations": {"api-approved.kubernetes.io": "x"}}}), dryRun="All"
        ),
        post(
            CRDS,
            crd(
                "${ns}.k8s.io",
                {
                    "metadata": {
                        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
                    }
                },
            ),
            dryRun="All",
        ),
        post(
            CRDS,
            crd("${ns}.k8s.io", {"metadata": {"annotations": {"api-approved.kubernetes.io": "unapproved, x"}}}),
            dryRun="All",
        ),
    ),
]
