"""A CRD that uses what ours use, and a little more: the cases about custom resources stand on it."""

from __future__ import annotations

from kube.differential.call import Json
from kube.differential.filling import merged


def kept(field: str) -> Json:
    """The one rule that ours use: a field that stays as it is."""
    there = f"has(self.{field}) == has(oldSelf.{field})"
    rule = f"{there} && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return {"rule": rule, "message": f"{field} is immutable"}


SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [kept("zone"), kept("serial")],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 100},
        "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
        "title": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
        "zone": {"type": "string"},
        "ratio": {"type": "number"},
        "active": {"type": "boolean"},
        "serial": {"type": "string"},
        "amount": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "tags": {"type": "array", "maxItems": 3, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "limits": {
            "type": "object",
            "default": {},
            "properties": {"cpu": {"type": "integer", "default": 1}, "memory": {"type": "string"}},
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "number": {"type": "integer", "format": "int32"},
                    "protocol": {"type": "string", "default": "TCP"},
                },
            },
        },
    },
}

STATUS: Json = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "phase": {"type": "string"},
        "since": {"type": "string", "format": "date-time"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {
                    "type": {"type": "string"},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": {"type": "string"},
                },
            },
        },
    },
}

VERSION: Json = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "what it looks like"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
}


def crd(group: str = "${ns}.example.com", changes: Json = None, version: Json = None) -> Json:
    """The Widget CRD of a group; a case that changes definitions uses a group of its own."""
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {
            "kind": "Widget",
            "listKind": "WidgetList",
            "plural": "widgets",
            "singular": "widget",
            "shortNames": ["wd"],
            "categories": ["toys"],
        },
        "versions": [merged(VERSION, version or {})],
    }
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": spec,
    }
    return merged(document, changes or {})


def plain_crd(schema: Json, group: str = "${ns}.example.com", changes: Json = None) -> Json:
    """A CRD of one schema and nothing else, for a case about that schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return crd(group, merged({"spec": {"versions": [version]}}, changes or {}))
