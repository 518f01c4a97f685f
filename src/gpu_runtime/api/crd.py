"""Generates CustomResourceDefinition manifests from kinds and their Structs."""

from __future__ import annotations

from gpu_runtime.api.kind import Column, Kind
from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.schema import describe
from gpu_runtime.api.structural import Schema, structural

_TYPE_META: Schema = {
    "apiVersion": {"description": "The group and version that this object is written in.", "type": "string"},
    "kind": {"description": "What kind of object this is.", "type": "string"},
}


def definition(kind: Kind[Object]) -> Schema:
    """The CustomResourceDefinition of this kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified_name},
        "spec": {
            "group": kind.group,
            "names": {
                "categories": list(kind.categories),
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "shortNames": list(kind.short_names),
                "singular": kind.singular,
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": object_schema(kind)},
                    **({"subresources": subresources} if (subresources := _subresources(kind)) else {}),
                }
            ],
        },
    }


def object_schema(kind: Kind[Object]) -> Schema:
    """The schema of a whole object. In `metadata` a CRD may restrict only the name: the server owns the rest."""
    node = describe(kind.type)
    properties = dict(_TYPE_META)
    metadata: Schema = {"type": "object"}
    if kind.names:
        name: Schema = {"type": "string", "maxLength": kind.names.max_length, "pattern": kind.names.pattern}
        metadata["properties"] = {"name": name}
    properties["metadata"] = metadata
    for field in ("spec", "status"):
        if field in node.fields:
            properties[field] = structural(node.fields[field].node)
    return {"description": node.description, "type": "object", "required": ["spec"], "properties": properties}


def _column(column: Column) -> Schema:
    shown: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        shown["description"] = column.description
    if column.priority:
        shown["priority"] = column.priority
    return shown


def _subresources(kind: Kind[Object]) -> Schema:
    found: Schema = {"status": {}} if kind.status_subresource else {}
    if kind.scale:
        found["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
            "labelSelectorPath": kind.scale.selector,
        }
    return found
