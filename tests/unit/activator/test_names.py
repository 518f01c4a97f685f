"""Names of what a function owns."""

from __future__ import annotations

import pytest

from equipment.builders import a_function
from gpu_runtime.activator.resources import names
from gpu_runtime.api.meta.names import is_dns1035_label
from gpu_runtime.api.v1alpha1.gpufunction import NAME_LENGTH, GPUFunction


@pytest.mark.parametrize("slot", [0, 7, 999])
def test_a_worker_has_the_slot_that_its_name_says(slot: int) -> None:
    name = names.worker("f" * NAME_LENGTH, slot)
    assert is_dns1035_label(name)
    assert names.slot_of("f" * NAME_LENGTH, name) == slot


@pytest.mark.parametrize(
    "unit", ["fn-echo-", "fn-echo-x", "fn-echo-01", "fn-echo-1-0", "echo-0", "fn-ech-0", "fn-echo-²"]
)
def test_other_names_are_no_workers(unit: str) -> None:
    assert names.slot_of("echo", unit) is None


def test_no_name_is_a_worker_of_two_functions() -> None:
    functions = ["a", "a-1", "a-1-2", "fn-a"]
    for function in functions:
        owners = [other for other in functions if names.slot_of(other, names.worker(function, 1)) is not None]
        assert owners == [function]


def test_another_source_or_another_function_of_the_name_has_another_config_map() -> None:
    def name(source: str, uid: str) -> str:
        return names.handler(a_function("echo").with_uid(uid).spec(handler={"source": source}).into(GPUFunction))

    assert len({name("a", "1"), name("b", "1"), name("a", "2")}) == 3
    assert name("a", "1") == name("a", "1")


def test_only_an_operation_of_this_slot_is_taken_for_a_hand_over_to_a_function() -> None:
    uid = "0b1c7f3e-0000-4000-8000-000000000001"
    assert names.is_operation(names.operation(uid, 3, "deadbeef"), 3)
    assert not names.is_operation(names.operation(uid, 3, "deadbeef"), 0)
    for chosen_by_a_user in ("function-test", f"function-{uid}", "function-echo-0-1", f"x-{uid}-3-deadbeef"):
        assert not names.is_operation(chosen_by_a_user, 3)
