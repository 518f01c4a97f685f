"""A definition of several versions, or of one that changes: what is stored is shown as the schemas say."""

from __future__ import annotations

from kube.differential.call import Call, Json, case, delete, get, json_patch, merge, post, quietly, table, until
from kube.differential.objects import CRDS
from kube.differential.widget_crd import plain_crd

NAME = f"{CRDS}/widgets.${{ns}}.example.com"
V1, V2 = (f"/apis/${{ns}}.example.com/{version}/namespaces/${{ns}}/widgets" for version in ("v1", "v2"))
TEXT = {"type": "string"}
STATUS = {"type": "object", "properties": {"a": {"type": "integer"}}}


def version(name: str, *, stored: bool = False, status: Json = None, **spec: Json) -> Json:
    properties = {"spec": {"type": "object", "properties": spec}, "status": status or STATUS}
    return {
        "name": name,
        "served": name != "v3",
        "storage": stored,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }


def defined(*versions: Json) -> Call:
    return quietly(post(CRDS, plain_crd({"type": "object"}, changes={"spec": {"versions": list(versions)}})))


def own(name: str, served: str = "v1", **spec: Json) -> Json:
    return {"apiVersion": f"${{ns}}.example.com/{served}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


TWO = (
    defined(
        version("v1", stored=True, a=TEXT, one=TEXT, first={**TEXT, "default": "1"}),
        version("v2", a=TEXT, two=TEXT, second={**TEXT, "default": "2"}, status={"type": "object"}),
        version("v3", a=TEXT),
    ),
    until(200, get(V1)),
    until(200, get(V2)),
)
# Taken when the new schema is in force: it is the only one that knows `new`.
CHANGED = until(201, post(V1, own("marker", new="x"), fieldValidation="Strict"))


def preserving(name: str, *bodies: Json, **spec: Json) -> tuple[str, Call, Call, tuple[Call, ...]]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if spec:
        schema["properties"] = {"spec": {"type": "object", "properties": spec}}
    sent = tuple(
        post(V1, {**own(f"w{at}"), **body}, fieldValidation=how)
        for at, body in enumerate(bodies)
        for how in ("Strict", "Warn")
    )
    return name, quietly(post(CRDS, plain_crd(schema))), until(200, get(V1)), sent


def preserved(name: str, **spec: Json) -> tuple[str, Call, Call, tuple[Call, ...]]:
    return preserving(
        name, {"spec": {"a": "x", "b": 1}, "more": {"c": 1}}, {"spec": {"a": None, "b": None}}, {"more": None}, **spec
    )


CASES = [
    case(
        "a version shows what it and the stored version know",
        *TWO,
        post(V1, own("x", a="1", one="1", two="1")),
        post(V2, own("y", "v2", a="1", one="1", two="1")),
        post(V2, own("z", "v2", two="1"), fieldValidation="Strict", dryRun="All"),
        *(get(f"{path}/{name}") for path in (V1, V2) for name in ("x", "y")),
        get(V1),
        get(V2),
        table(V2),
        Call(method="GET", path=V2, query={"watch": "true", "timeoutSeconds": "5", "resourceVersion": "0"}, events=2),
    ),
    case(
        "a write in one version loses what only the other knows",
        *TWO,
        quietly(post(V1, own("x", a="1", one="1"))),
        merge(f"{V2}/x", {"spec": {"two": "2"}}),
        json_patch(f"{V2}/x", {"op": "test", "path": "/spec/first", "value": "1"}),
        get(f"{V1}/x"),
        merge(f"{V1}/x/status", {"status": {"a": 1}}),
        get(f"{V2}/x"),
        merge(f"{V2}/x", {"metadata": {"finalizers": ["example.com/hold"]}}),
        delete(f"{V2}/x"),
        get(f"{V1}/x"),
    ),
    *(
        case(
            f"a patch that sets the version to {other}",
            *TWO,
            quietly(post(V1, own("x", a="1"))),
            *(
                merge(f"{V1}/x{part}", {"apiVersion": f"${{ns}}.example.com/{other}", **change}, fieldValidation=how)
                for part, change in (
                    ("", {}),
                    ("", {"spec": {"two": "2"}}),
                    ("", {"spec": {"a": 5}}),
                    ("/status", {"status": {"a": 1, "b": 2}}),
                )
                for how in ("Strict", "Warn")
            ),
            get(f"{V1}/x"),
        )
        for other in ("v2", "v3", "v4")
    ),
    case(
        "a status that comes with another kind gets its defaults",
        defined(
            version(
                "v1", stored=True, status={"type": "object", "properties": {"a": {"type": "integer", "default": 7}}}
            )
        ),
        until(200, get(V1)),
        quietly(post(V1, own("x"))),
        merge(f"{V1}/x/status", {"kind": "Gadget", "status": {"b": 1}}),
        get(f"{V1}/x"),
    ),
    case(
        "what a definition forgets is hidden, and what it sets by default is there",
        defined(version("v1", stored=True, a=TEXT, b=TEXT)),
        until(200, get(V1)),
        quietly(post(V1, own("x", a="1", b="2"))),
        quietly(post(V1, own("y", a="1", b="2"))),
        quietly(
            merge(NAME, {"spec": {"versions": [version("v1", stored=True, a=TEXT, new={**TEXT, "default": "n"})]}})
        ),
        CHANGED,
        get(f"{V1}/x"),
        get(V1),
        merge(f"{V1}/x", {"spec": {"a": "2"}}),
        merge(f"{V1}/y", {"metadata": {"finalizers": ["example.com/hold"]}}),
        delete(f"{V1}/y"),
    ),
    *(
        case(name, made, ready, *sent)
        for name, made, ready, sent in (
            preserved("a root that keeps unknown fields keeps none of what it knows", a=TEXT),
            preserved("a root that keeps unknown fields and knows none keeps all"),
        )
    ),
]
