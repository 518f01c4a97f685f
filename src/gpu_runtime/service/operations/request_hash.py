"""The hash of a request's canonical form: equal for payloads that mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.schema import Node, describe
from gpu_runtime.api.v1alpha1.fields import QuantityText

# Not hashed: it is the request's id.
OPERATION_ID = "operationID"

_QUANTITY = describe(QuantityText).check


def request_hash(type_: type[msgspec.Struct], sent: Mapping[str, Any]) -> str:
    """SHA-256 over a valid payload as the client sent it; different spellings of one request have the same hash.

    Defaults are not filled in: if a later version changes a default, a replay must not become a conflict.
    """
    meaning = {name: value for name, value in sent.items() if name != OPERATION_ID}
    form = _canonical(describe(type_), meaning)
    return sha256(msgspec.json.encode(form, order="sorted")).hexdigest()


def _canonical(node: Node, value: Any) -> Any:
    if isinstance(value, Mapping):
        entries = {name: _canonical(_entry(node, name), entry) for name, entry in value.items()}
        return {name: entry for name, entry in entries.items() if not _empty(entry)}
    if isinstance(value, list):
        # Empty list entries are kept: an empty argument is an argument.
        return [_canonical(node.items or node, entry) for entry in value]
    if isinstance(value, str) and node.check is _QUANTITY and value:
        return Quantity.parse(value).nanos
    return value


def _entry(node: Node, name: str) -> Node:
    if name in node.fields:
        return node.fields[name].node
    return node.items or Node("any")


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)
