"""A kind that belongs to no product, for tests of machinery that must not know one."""

from __future__ import annotations

from typing import Self

from equipment.builders.base import Builder, Document, new_document

GROUP = "test.gpu-runtime.dev"


class WidgetBuilder(Builder):
    """Widget: spec.size and spec.colour; status.phase, status.conditions and anything else in the status."""

    def size(self, size: int) -> Self:
        return self.spec(size=size)

    def ready(self) -> Self:
        return self.status(phase="Ready").condition("Ready", "True", "WidgetReady")


def a_widget(name: str, namespace: str = "") -> WidgetBuilder:
    return WidgetBuilder(new_document(f"{GROUP}/v1", "Widget", name, namespace)).size(1)


def widget_definition(group: str = GROUP) -> Document:
    """The CustomResourceDefinition of Widget, with a status subresource; a group of one's own keeps tests apart."""
    size = {"type": "integer", "minimum": 0, "maximum": 100}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": size, "colour": {"type": "string"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
