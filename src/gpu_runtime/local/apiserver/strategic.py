"""Strategic merge patch: lists are merged by the keys that the kind's schema names."""

from __future__ import annotations

import copy
from typing import Any

from gpu_runtime.local.apiserver.patch import BadDirective, NotAPatch
from gpu_runtime.local.apiserver.schema import Field, Mapping, Node, Sequence, Struct

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_REMOVE = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def strategic_patch(target: Any, patch: Any, node: Node) -> Any:
    """A copy of `target` with the patch merged in as `node`'s schema says."""
    if not isinstance(patch, dict):
        raise NotAPatch("cannot unmarshal into a strategic merge patch: not an object")
    return _merge(copy.deepcopy(target), patch, node)


def _merge(target: dict[str, Any], patch: dict[str, Any], node: Node) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadDirective(f"unknown patch type: {directive} in map: {_go(patch)}")
    if _RETAIN in patch:
        target = {key: value for key, value in target.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith((_ORDER, _REMOVE)):
            continue
        if value is None:
            target.pop(key, None)
            continue
        target[key] = _merge_field(target.get(key), value, _field(node, key), patch.get(_ORDER + key))
    for key, value in patch.items():
        if key.startswith(_REMOVE):
            name = key.removeprefix(_REMOVE)
            target[name] = [one for one in target.get(name) or [] if one not in value]
        elif key.startswith(_ORDER) and key.removeprefix(_ORDER) not in patch:
            name = key.removeprefix(_ORDER)
            if isinstance(target.get(name), list):
                target[name] = _ordered(target[name], target[name], value, _field(node, name))
    return target


def _go(value: Any) -> str:
    """A document as Go prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go(value[key])}" for key in sorted(value)) + "]"
    return str(value)


def _field(node: Node, key: str) -> Field | None:
    if isinstance(node, Struct):
        return node.fields.get(key)
    if isinstance(node, Mapping):
        return Field(node.values, "")
    return None


def _merge_field(target: Any, value: Any, field: Field | None, order: Any) -> Any:
    if isinstance(value, dict):
        node = field.node if field is not None else Node()
        if field is not None and field.replaces:
            return copy.deepcopy(value)
        return _merge(target if isinstance(target, dict) else {}, value, node)
    if isinstance(value, list) and field is not None and field.merges and isinstance(field.node, Sequence):
        old = target if isinstance(target, list) else []
        kept = [one for one in value if not (isinstance(one, dict) and one.get(_DIRECTIVE) == "delete")]
        return _ordered(_merge_list(old, value, field), old, order if isinstance(order, list) else kept, field)
    if isinstance(value, list):
        return [copy.deepcopy(one) for one in value if not (isinstance(one, dict) and _DIRECTIVE in one)]
    return copy.deepcopy(value)


def _merge_list(target: list[Any], patch: list[Any], field: Field) -> list[Any]:
    assert isinstance(field.node, Sequence)
    items = field.node.items
    if not field.merge_key:
        return target + [one for one in patch if one not in target]
    if any(isinstance(one, dict) and one.get(_DIRECTIVE) == "replace" for one in patch):
        return [copy.deepcopy(one) for one in patch if not (isinstance(one, dict) and _DIRECTIVE in one)]
    found = list(target)
    for one in patch:
        if not isinstance(one, dict) or field.merge_key not in one:
            raise BadDirective(f"map: {_go(one)} does not contain declared merge key: {field.merge_key}")
        key = one[field.merge_key]
        at = next((at for at, old in enumerate(found) if isinstance(old, dict) and old.get(field.merge_key) == key), -1)
        if one.get(_DIRECTIVE) == "delete":
            found = [old for old in found if not (isinstance(old, dict) and old.get(field.merge_key) == key)]
        elif at >= 0:
            found[at] = _merge(found[at], one, items)
        else:
            found.append(_merge({}, one, items))
    return found


def _ordered(merged: list[Any], server: list[Any], order: list[Any], field: Field | None) -> list[Any]:
    """Items that the patch orders come in its order; those that only the server knows keep their place among them."""
    merge_key = field.merge_key if field is not None else ""

    def key_of(one: Any) -> Any:
        return one.get(merge_key) if merge_key and isinstance(one, dict) else one

    wanted = [key_of(one) for one in order]
    known = [key_of(one) for one in server]
    left = sorted((one for one in merged if key_of(one) in wanted), key=lambda one: wanted.index(key_of(one)))
    right = [one for one in merged if key_of(one) not in wanted]
    found: list[Any] = []
    while left and right:
        ours, theirs = key_of(left[0]), key_of(right[0])
        keeps = ours in known and theirs in known and known.index(theirs) < known.index(ours)
        found.append(right.pop(0) if keeps else left.pop(0))
    return found + left + right
