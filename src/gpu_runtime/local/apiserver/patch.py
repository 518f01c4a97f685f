"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386)."""

from __future__ import annotations

import copy
from typing import Any


class PatchFailed(Exception):
    """The patch does not apply to this document (422)."""


class BadDirective(Exception):
    """A strategic merge patch that contradicts the kind's schema; the real server answers it with a bare 500."""


class NotAPatch(Exception):
    """The document is not a patch at all (400)."""


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` with what the merge patch sets and without what it nulls; neither argument is changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = merge_patch(found.get(key), value)
        else:
            found[key] = copy.deepcopy(value)
    return found


def json_patch(target: Any, operations: Any) -> Any:
    """A copy of `target` after all operations, or PatchFailed and nothing changed."""
    if not isinstance(operations, list):
        raise NotAPatch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > 10_000:
        raise PatchFailed(f"The allowed maximum operations in a JSON patch is 10000, got {len(operations)}")
    document = copy.deepcopy(target)
    for operation in operations:
        if not isinstance(operation, dict):
            raise NotAPatch("json: cannot unmarshal into Go value of type jsonpatch.Operation")
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    kind = operation.get("op")
    pointer = operation.get("path")
    if not isinstance(pointer, str):
        raise PatchFailed("operation missing path field")
    match kind:
        case "add":
            return _set(document, pointer, copy.deepcopy(_value(operation)), insert=True)
        case "remove":
            return _remove(document, pointer)
        case "replace":
            return _set(document, pointer, copy.deepcopy(_value(operation)), insert=False)
        case "move":
            value = _lookup(document, _source(operation))
            return _set(_remove(document, _source(operation)), pointer, value, insert=True)
        case "copy":
            return _set(document, pointer, copy.deepcopy(_lookup(document, _source(operation))), insert=True)
        case "test":
            if _lookup(document, pointer, missing=None) != operation.get("value"):
                raise PatchFailed(f"testing value {pointer} failed: test failed")
            return document
    raise PatchFailed(f"Unexpected kind: {kind}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchFailed("operation missing value field")
    return operation["value"]


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise PatchFailed("operation missing from field")
    return source


def _split(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise PatchFailed(f"add operation does not apply: doc is missing path: {pointer}: missing value")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


_RAISE = object()


def _lookup(document: Any, pointer: str, missing: Any = _RAISE) -> Any:
    if pointer == "":
        return document
    for part in _split(pointer):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document) - 1, pointer)]
        elif missing is not _RAISE:
            return missing
        else:
            raise PatchFailed(f"doc is missing key: {pointer}: missing value")
    return document


def _parent(document: Any, pointer: str) -> tuple[Any, str]:
    parts = _split(pointer)
    parent = document
    for part in parts[:-1]:
        if isinstance(parent, dict) and part in parent:
            parent = parent[part]
        elif isinstance(parent, list):
            parent = parent[_index(part, len(parent) - 1, pointer)]
        else:
            raise PatchFailed(f"doc is missing path: {pointer}: missing value")
    return parent, parts[-1]


def _index(part: str, last: int, pointer: str) -> int:
    if not part.isdecimal() or int(part) > last:
        raise PatchFailed(f"Unable to access invalid index: {part} ({pointer}): invalid index referenced")
    return int(part)


def _set(document: Any, pointer: str, value: Any, *, insert: bool) -> Any:
    if pointer == "":
        return value
    parent, last = _parent(document, pointer)
    if isinstance(parent, dict):
        parent[last] = value
    elif not isinstance(parent, list):
        raise PatchFailed(f"doc is missing path: {pointer}: missing value")
    elif insert:
        parent.insert(len(parent) if last == "-" else _index(last, len(parent), pointer), value)
    else:
        parent[_index(last, len(parent) - 1, pointer)] = value
    return document


def _remove(document: Any, pointer: str) -> Any:
    if pointer == "":
        raise PatchFailed("remove operation does not apply: doc is missing path")
    parent, last = _parent(document, pointer)
    if isinstance(parent, dict):
        if last not in parent:
            raise PatchFailed(f"Unable to remove nonexistent key: {last}: missing value")
        del parent[last]
    elif isinstance(parent, list):
        del parent[_index(last, len(parent) - 1, pointer)]
    else:
        raise PatchFailed(f"doc is missing path: {pointer}: missing value")
    return document
