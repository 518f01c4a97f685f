"""JSON patch and merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.local.apiserver.patch import NotAPatch, PatchFailed, json_patch, merge_patch

DOCUMENT = {"a": {"b": 1, "c": [1, 2, 3]}, "x/y": "z"}

APPLIED: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "add sets a field": ([{"op": "add", "path": "/a/d", "value": 4}], {"a": {"b": 1, "c": [1, 2, 3], "d": 4}}),
    "add inserts into a list": ([{"op": "add", "path": "/a/c/1", "value": 9}], {"a": {"b": 1, "c": [1, 9, 2, 3]}}),
    "add with a dash appends": ([{"op": "add", "path": "/a/c/-", "value": 9}], {"a": {"b": 1, "c": [1, 2, 3, 9]}}),
    "remove takes an item": ([{"op": "remove", "path": "/a/c/0"}], {"a": {"b": 1, "c": [2, 3]}}),
    "replace changes a value": ([{"op": "replace", "path": "/a/b", "value": None}], {"a": {"b": None, "c": [1, 2, 3]}}),
    "replace sets what is not there": (
        [{"op": "replace", "path": "/a/n", "value": 1}],
        {"a": {"b": 1, "c": [1, 2, 3], "n": 1}},
    ),
    "move renames": ([{"op": "move", "from": "/a/b", "path": "/a/m"}], {"a": {"m": 1, "c": [1, 2, 3]}}),
    "copy doubles": ([{"op": "copy", "from": "/a/b", "path": "/a/m"}], {"a": {"b": 1, "m": 1, "c": [1, 2, 3]}}),
    "test passes when equal": ([{"op": "test", "path": "/a/b", "value": 1}], {"a": {"b": 1, "c": [1, 2, 3]}}),
    "escaped slashes name one key": (
        [{"op": "replace", "path": "/x~1y", "value": "q"}],
        {"a": {"b": 1, "c": [1, 2, 3]}, "x/y": "q"},
    ),
}


@pytest.mark.parametrize(("operations", "want"), APPLIED.values(), ids=APPLIED)
def test_operations_apply_to_a_copy(operations: list[dict[str, Any]], want: Any) -> None:
    before = {"a": {"b": 1, "c": [1, 2, 3]}, "x/y": "z"}
    assert json_patch(before, operations) == {"x/y": "z", **want}
    assert before == DOCUMENT


FAILING: dict[str, dict[str, Any]] = {
    "a parent that is not there": {"op": "add", "path": "/n/d", "value": 4},
    "an index past the end": {"op": "add", "path": "/a/c/7", "value": 4},
    "an index that is no number": {"op": "replace", "path": "/a/c/x", "value": 4},
    "removing what is not there": {"op": "remove", "path": "/a/n"},
    "a test that differs": {"op": "test", "path": "/a/b", "value": 2},
    "an unknown operation": {"op": "grow", "path": "/a/b"},
    "no path": {"op": "remove"},
    "no value": {"op": "add", "path": "/a/b"},
    "no source": {"op": "move", "path": "/a/b"},
    "a path without a slash": {"op": "add", "path": "a", "value": 1},
}


@pytest.mark.parametrize("operation", FAILING.values(), ids=FAILING)
def test_an_operation_that_does_not_apply_fails_the_patch(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchFailed):
        json_patch(DOCUMENT, [operation])


@pytest.mark.parametrize("body", [{}, "x", [1]])
def test_what_is_no_list_of_operations_is_no_patch(body: Any) -> None:
    with pytest.raises(NotAPatch):
        json_patch(DOCUMENT, body)


def test_a_merge_patch_sets_merges_and_removes() -> None:
    patch = {"a": {"b": None, "c": [9], "d": {"e": 1}}, "new": {"keep": 1, "drop": None}}
    assert merge_patch(DOCUMENT, patch) == {"a": {"c": [9], "d": {"e": 1}}, "x/y": "z", "new": {"keep": 1}}
    assert DOCUMENT["a"] == {"b": 1, "c": [1, 2, 3]}


def test_a_merge_patch_replaces_a_value_by_an_object() -> None:
    assert merge_patch({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
