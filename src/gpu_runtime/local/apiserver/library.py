"""The schemas of built-in kinds, made into nodes when first asked for."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.schema import (
    Amount,
    Binary,
    Boolean,
    Field,
    Integer,
    IntOrText,
    KeptSequence,
    Mapping,
    Node,
    Number,
    SchemaOrOther,
    Sequence,
    Struct,
    Text,
    Time,
)

_JUDGED_IN_CODE = (
    "DeploymentStrategy.type",
    "NodeSelectorRequirement.operator",
    "PodSpec.preemptionPolicy",
    "StorageClass.reclaimPolicy",
    "Taint.effect",
)
"""Enums that the real server reports in a different way than all others."""


class Library:
    """The schemas of every built-in kind, made into nodes when first asked for."""

    def __init__(self, schemas: dict[str, Any], facts: dict[str, dict[str, str]]) -> None:
        self._schemas = schemas
        self._facts = facts
        self._nodes: dict[str, Node] = {}

    def named(self, name: str) -> Node:
        found = self._nodes.get(name)
        return found if found is not None else self._make_named(name)

    def raw(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._schemas[name]
        return found

    def _make_named(self, name: str) -> Node:
        special: dict[str, Node] = {
            "Quantity": Amount(),
            "IntOrString": IntOrText(),
            "Time": Time("seconds"),
            "MicroTime": Time("microseconds"),
            "CustomResourceSubresourceStatus": Struct("CustomResourceSubresourceStatus"),  # without any field
        }
        short = name.rpartition(".")[2]
        raw = self._schemas[name]
        if short in special:
            self._nodes[name] = special[short]
        elif "properties" in raw:
            struct = Struct(short)
            self._nodes[name] = struct
            facts = self._facts.get(name, {})
            for key, one in raw["properties"].items():
                strategy = one.get("x-kubernetes-patch-strategy", "")
                merge_key = one.get("x-kubernetes-patch-merge-key", "")
                node = Text() if f"{short}.{key}" in _JUDGED_IN_CODE else self.node(one)
                if short == "CustomResourceDefinitionStatus" and isinstance(node, Sequence):
                    node = KeptSequence(node.items)
                struct.fields[key] = Field(node, facts.get(key, ""), strategy, merge_key)
            struct.seal()
        elif (schema := f"{name.removesuffix(short)}{short.partition('Or')[0]}") != name and schema in self._schemas:
            self._nodes[name] = SchemaOrOther(self.named(schema), short.partition("Or")[2])
        else:
            self._nodes[name] = self.node(raw)
        return self._nodes[name]

    def node(self, raw: dict[str, Any]) -> Node:
        if "$ref" in raw:
            return self.named(raw["$ref"].rsplit("/", 1)[1])
        if "allOf" in raw:
            return self.node(raw["allOf"][0])
        match raw.get("type"):
            case "string":
                return Binary() if raw.get("format") == "byte" else Text(raw.get("enum"))
            case "boolean":
                return Boolean()
            case "integer":
                return Integer(raw.get("format", "int64"))
            case "number":
                return Number()
            case "array":
                # Enums of list items are checked in code: kinds differ in the field that they report.
                items = self.node(raw["items"])
                return Sequence(Text() if isinstance(items, Text) else items)
            case "object" if "additionalProperties" in raw:
                values = self.node(raw["additionalProperties"])
                return Mapping(Amount(coarse=True) if isinstance(values, Amount) else values)
        return Node()
