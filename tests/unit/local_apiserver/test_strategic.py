"""Strategic merge patch on the schemas of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.local.apiserver.builtin import named_node
from gpu_runtime.local.apiserver.patch import BadDirective
from gpu_runtime.local.apiserver.strategic import strategic_patch


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": name} for name in names]


def patched(spec: dict[str, Any], patch: dict[str, Any]) -> Any:
    node = named_node("v1", "Pod")
    assert node is not None
    return strategic_patch({"spec": spec}, {"spec": patch}, node)["spec"]


def test_list_items_are_merged_by_their_key() -> None:
    found = patched({"containers": containers("a", "b")}, {"containers": [{"name": "b", "image": "new"}]})
    assert found["containers"] == [{"name": "a", "image": "a"}, {"name": "b", "image": "new"}]


def test_new_items_come_before_those_that_the_patch_does_not_name() -> None:
    found = patched({"containers": containers("a")}, {"containers": containers("b")})
    assert [one["name"] for one in found["containers"]] == ["b", "a"]


def test_an_item_is_deleted_by_directive() -> None:
    found = patched({"containers": containers("a", "b")}, {"containers": [{"name": "a", "$patch": "delete"}]})
    assert [one["name"] for one in found["containers"]] == ["b"]


def test_a_list_is_replaced_by_directive() -> None:
    patch = {"containers": [*containers("c"), {"$patch": "replace"}]}
    assert patched({"containers": containers("a", "b")}, patch)["containers"] == containers("c")


def test_the_order_directive_orders_and_keeps_the_servers_own() -> None:
    patch = {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": containers("c")}
    found = patched({"containers": containers("a", "b", "c")}, patch)
    assert [one["name"] for one in found["containers"]] == ["b", "c", "a"]


def test_an_atomic_list_is_replaced() -> None:
    found = patched({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]})
    assert found["tolerations"] == [{"key": "b"}]


def test_retained_keys_drop_the_others() -> None:
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}
    found = patched({"volumes": [{"name": "v", "emptyDir": {}}]}, patch)
    assert found["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


def test_primitive_items_are_removed_by_directive() -> None:
    node = named_node("v1", "Pod")
    assert node is not None
    document = {"metadata": {"finalizers": ["x/a", "x/b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}
    assert strategic_patch(document, patch, node) == {"metadata": {"finalizers": ["x/b"]}}


def test_null_removes_a_field_and_an_object_is_merged() -> None:
    found = patched(
        {"nodeSelector": {"a": "1", "b": "2"}, "hostname": "h"}, {"nodeSelector": {"a": None}, "hostname": None}
    )
    assert found == {"nodeSelector": {"b": "2"}}


@pytest.mark.parametrize("patch", [{"$patch": "grow"}, {"containers": [{"image": "x"}]}])
def test_what_contradicts_the_schema_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(BadDirective):
        patched({"containers": containers("a")}, patch)
