"""OpenAPI v3: built-in kinds from the data file, custom kinds from their definitions."""

from __future__ import annotations

import hashlib
from typing import Any

from gpu_runtime.local.apiserver.builtin import data, library
from gpu_runtime.local.apiserver.kinds import Kind, Registry
from gpu_runtime.local.apiserver.records import encode

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."

_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_TYPE = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
        "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
        f"More info: {_CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "Kind is a string value representing the REST resource this object represents. Servers may "
        "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
        f"More info: {_CONVENTIONS}#types-kinds",
    },
}
_METADATA = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
"""What `kubectl explain` says of every custom kind."""


class OpenApi:
    """The index and one document per group and version."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def index(self) -> dict[str, Any]:
        paths = {}
        for prefix in [*data()["documents"], *self._custom_prefixes()]:
            digest = self._digest(prefix)
            paths[prefix] = {"serverRelativeURL": f"/openapi/v3/{prefix}?hash={digest}"}
        return {"paths": paths}

    def document(self, prefix: str) -> dict[str, Any] | None:
        known: dict[str, Any] | None = data()["documents"].get(prefix)
        if known is not None:
            return known
        if prefix not in self._custom_prefixes():
            return None
        _, group, version = prefix.split("/")
        return _custom_document([kind for kind in self._registry.of(group, version) if kind.custom])

    def _custom_prefixes(self) -> list[str]:
        return list(dict.fromkeys(f"apis/{kind.group}/{kind.version}" for kind in self._registry if kind.custom))

    def _digest(self, prefix: str) -> str:
        if prefix in data()["documents"]:
            return str(data()["version"]["gitVersion"])
        return hashlib.sha256(encode(self.document(prefix))).hexdigest()[:32].upper()


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _component(kind: Kind) -> str:
    reversed_group = ".".join(reversed(kind.group.split(".")))
    return f"{reversed_group}.{kind.version}.{kind.kind}"


def _custom_document(kinds: list[Kind]) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for kind in kinds:
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        name = _component(kind)
        schema = dict(kind.schema or {"type": "object"})
        properties = dict(schema.get("properties") or {})
        properties |= _TYPE | {"metadata": {"allOf": [_reference(f"{_META}ObjectMeta")], "description": _METADATA}}
        schemas[name] = {**schema, "properties": properties, "x-kubernetes-group-version-kind": [gvk]}
        items = {"type": "array", "items": _reference(name)}
        listed = {"items": items, "metadata": {"allOf": [_reference(f"{_META}ListMeta")]}}
        list_gvk = {**gvk, "kind": kind.list_kind}
        schemas[f"{name}List"] = {
            "type": "object",
            "required": ["items"],
            "properties": {**_TYPE, **listed},
            "x-kubernetes-group-version-kind": [list_gvk],
        }
        paths |= _custom_paths(kind, name, gvk)
    for name in (
        "ObjectMeta",
        "ListMeta",
        "OwnerReference",
        "ManagedFieldsEntry",
        "Time",
        "FieldsV1",
        "DeleteOptions",
        "Preconditions",
        "Status",
        "StatusDetails",
        "StatusCause",
        "Patch",
    ):
        schemas[_META + name] = library().raw(_META + name)
    info = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _custom_paths(kind: Kind, name: str, gvk: dict[str, str]) -> dict[str, Any]:
    base = f"/apis/{kind.group}/{kind.version}"
    collection = f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    write = [
        {"name": one, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for one in ("dryRun", "fieldManager", "fieldValidation")
    ]
    read = [
        {"name": one, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for one in ("labelSelector", "fieldSelector", "resourceVersion")
    ]

    def operation(action: str, parameters: list[Any], answer: str, body: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {
            "operationId": f"{action}{kind.kind}",
            "parameters": parameters,
            "responses": {
                "200": {"description": "OK", "content": {"application/json": {"schema": _reference(answer)}}}
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        }
        if body:
            media = (
                ["application/json-patch+json", "application/merge-patch+json"]
                if action == "patch"
                else ["application/json"]
            )
            found["requestBody"] = {"content": {one: {"schema": _reference(body)} for one in media}}
        return found

    paths: dict[str, Any] = {
        collection: {
            "get": operation("list", read, f"{name}List"),
            "post": operation("post", write, name, name),
            "delete": operation("deletecollection", read, f"{_META}Status"),
        },
        f"{collection}/{{name}}": {
            "get": operation("get", [], name),
            "put": operation("put", write, name, name),
            "patch": operation("patch", write, name, f"{_META}Patch"),
            "delete": operation("delete", [], f"{_META}Status", f"{_META}DeleteOptions"),
        },
    }
    if kind.namespaced:
        paths[f"{base}/{kind.plural}"] = {"get": operation("list", read, f"{name}List")}
    return paths
