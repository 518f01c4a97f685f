"""I3: each clause, in a listing where it holds and in one where it does not."""

from __future__ import annotations

from equipment.builders import a_config_map, a_deployment, a_stock_unit, a_storage, a_unit, a_widget, an_operation
from equipment.judge import orphans
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO

UNIT = a_unit("u1").with_uid("u")
OPERATION = an_operation("op1").with_uid("o")


def listing(*builders: object) -> list[dict[str, object]]:
    return [
        builder.document() if builder.uid else builder.with_uid(f"uid-{number}").document()  # type: ignore[attr-defined]
        for number, builder in enumerate(builders)
    ]


def test_a_child_with_its_live_owner_is_no_orphan() -> None:
    assert orphans(listing(UNIT, a_deployment("u1", "runtime-instance").controlled_by(UNIT))) == []


def test_an_owner_that_does_not_control_may_be_gone() -> None:
    child = a_config_map("c", "ns").metadata(
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "gone"}]
    )
    assert orphans(listing(child)) == []


def test_a_child_without_its_owner_is_an_orphan() -> None:
    [violation] = orphans(listing(a_deployment("u1", "runtime-instance").controlled_by(UNIT)))
    assert violation == "Deployment runtime-instance/u1: its owner GPUUnit u1 (uid u) is gone"


def test_a_child_of_a_former_owner_of_the_same_name_is_an_orphan() -> None:
    [violation] = orphans(listing(UNIT.with_uid("new"), a_deployment("u1", "runtime-instance").controlled_by(UNIT)))
    assert violation.endswith("(uid u) lives with another UID, new")


def test_kinds_of_no_product_are_judged_alike() -> None:
    widget = a_widget("w", "ns").with_uid("w")
    assert orphans(listing(widget, a_config_map("c", "ns").controlled_by(widget))) == []
    assert len(orphans(listing(a_config_map("c", "ns").controlled_by(widget)))) == 1


def test_a_claim_of_an_unfinished_operation_is_held_by_someone() -> None:
    assert orphans(listing(OPERATION, a_stock_unit("s").claimed_by(OPERATION))) == []


def test_a_claim_without_its_operation_is_seen() -> None:
    [violation] = orphans(listing(a_stock_unit("s").claimed_by(OPERATION)))
    assert violation == "GPUUnit runtime-stock/s is claimed by operation o, which does not exist"


def test_a_claim_of_a_finished_operation_is_seen() -> None:
    [violation] = orphans(listing(OPERATION.committed(), a_stock_unit("s").claimed_by(OPERATION)))
    assert violation.endswith("which is over (Succeeded)")


def test_a_storage_attached_to_a_live_unit_is_held() -> None:
    assert orphans(listing(UNIT, a_storage("d").attached_to(UNIT, OPERATION))) == []


def test_a_storage_attached_to_a_unit_that_is_gone_is_seen() -> None:
    [violation] = orphans(listing(OPERATION, a_storage("d").attached_to(UNIT, OPERATION)))
    assert violation == "GPUStorage runtime-instance/d is attached to unit u1 (uid u), which does not exist"


def test_a_storage_attached_before_its_unit_exists_needs_a_live_operation() -> None:
    storage = a_storage("d").attached_to(a_unit("u1"), OPERATION)
    assert orphans(listing(OPERATION, storage)) == []
    assert orphans(listing(storage)) == [
        "GPUStorage runtime-instance/d is attached by operation o, which does not exist"
    ]


def test_a_storage_is_held_by_the_unit_that_its_operation_made_also_when_the_operation_is_over() -> None:
    storage = a_storage("d").attached_to(a_unit("u1"), OPERATION)
    unit = UNIT.made_by(OPERATION).consuming(a_stock_unit("s").with_uid("s"))
    assert orphans(listing(OPERATION.committed(), storage, unit)) == []
    assert len(orphans(listing(OPERATION.committed(), storage))) == 1


def test_a_storage_is_held_by_a_storage_that_copies_from_it_while_that_exists() -> None:
    source = a_storage("d").annotated({ATTACHED_TO: '{"storage": "copy", "uid": "c"}'})
    assert orphans(listing(source, a_storage("copy").with_uid("c"))) == []
    [violation] = orphans(listing(source))
    assert violation.endswith("is attached to storage copy (uid c), which does not exist")


def test_an_inert_unit_left_over_is_seen() -> None:
    assert orphans(listing(UNIT.made_by(OPERATION).consuming(a_stock_unit("s").with_uid("s")))) == []
    assert orphans(listing(UNIT.made_by(OPERATION))) == [
        "GPUUnit runtime-instance/u1 was never admitted, and never removed"
    ]
