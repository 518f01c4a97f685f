"""What all builders of test objects share: metadata, and a copy at every step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")
Document = dict[str, Any]

LONG_AGO = "2020-01-01T00:00:00Z"


class Builder:
    """Says in words what a test object is. Each step gives a new builder, so that a common beginning can be shared."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def document(self) -> Document:
        """The object as JSON on the wire."""
        return copy.deepcopy(self._document)

    def into(self, struct: type[T]) -> T:
        """The object as a Struct that has its fields, or some of them."""
        return msgspec.convert(self._document, struct)

    @property
    def name(self) -> str:
        return str(self._document["metadata"].get("name", ""))

    @property
    def uid(self) -> str:
        return str(self._document["metadata"].get("uid", ""))

    def in_namespace(self, namespace: str) -> Self:
        return self.metadata(namespace=namespace)

    def with_uid(self, uid: str) -> Self:
        return self.metadata(uid=uid)

    def at_version(self, version: int) -> Self:
        return self.metadata(resourceVersion=str(version))

    def at_generation(self, generation: int) -> Self:
        return self.metadata(generation=generation)

    def labelled(self, labels: Mapping[str, str]) -> Self:
        return self.metadata(labels={**self._document["metadata"].get("labels", {}), **labels})

    def annotated(self, annotations: Mapping[str, str]) -> Self:
        return self.metadata(annotations={**self._document["metadata"].get("annotations", {}), **annotations})

    def kept_by(self, finalizer: str) -> Self:
        return self.metadata(finalizers=[*self._document["metadata"].get("finalizers", []), finalizer])

    def being_deleted(self) -> Self:
        return self.metadata(deletionTimestamp=LONG_AGO)

    def controlled_by(self, owner: Builder) -> Self:
        """A child of `owner`, which must have a UID."""
        parent = owner.document()
        reference = {
            "apiVersion": parent["apiVersion"],
            "kind": parent["kind"],
            "name": owner.name,
            "uid": parent["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return self.metadata(ownerReferences=[*self._document["metadata"].get("ownerReferences", []), reference])

    def metadata(self, **fields: Any) -> Self:
        return self.having(metadata=fields)

    def spec(self, **fields: Any) -> Self:
        return self.having(spec=fields)

    def status(self, **fields: Any) -> Self:
        return self.having(status=fields)

    def condition(self, kind: str, status: str, reason: str, message: str = "") -> Self:
        """Sets one condition, for the object's generation."""
        found = self._document.get("status", {}).get("conditions", [])
        others = [condition for condition in found if condition["type"] != kind]
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": LONG_AGO,
            "observedGeneration": self._document["metadata"].get("generation", 1),
        }
        return self.status(conditions=[*others, condition])

    def having(self, **parts: Mapping[str, Any]) -> Self:
        """Merges fields into the top-level parts named."""
        document = self.document()
        for part, fields in parts.items():
            document[part] = {**document.get(part, {}), **copy.deepcopy(dict(fields))}
        return type(self)(document)


def new_document(api_version: str, kind: str, name: str, namespace: str = "") -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
