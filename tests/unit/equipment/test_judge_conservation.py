"""I2: each clause holds for a clean hand-over, and is broken by a history made to break it."""

from __future__ import annotations

import pytest

from equipment.builders import a_deployment, a_stock_unit, a_unit, an_operation
from equipment.judge import StockCount, conservation, count_stock, premature_workloads
from gpu_runtime.api.v1alpha1.annotations import SOURCE_STOCK_UID
from unit.equipment.story import Story


@pytest.fixture
def story() -> Story:
    return Story()


def hand_over(story: Story) -> None:
    """A whole hand-over in the order of the protocol, with another stock unit that stays."""
    story.create(a_stock_unit("s0"))
    stock = story.create(a_stock_unit("s1").ready())
    operation = story.create(an_operation("op1"))
    claimed = story.update(stock.claimed_by(operation))
    unit = story.create(a_unit("u1").made_by(operation))
    story.update(operation.committed().making(unit))
    admitted = story.update(unit.consuming(claimed))
    story.delete(claimed)
    story.create(a_deployment("u1", "runtime-instance").controlled_by(admitted))


def test_a_clean_hand_over_conserves_stock(story: Story) -> None:
    hand_over(story)
    for seen in (story.timeline(), story.watched()):
        assert conservation(seen, seeded=2) == []
        assert premature_workloads(seen) == []
        assert count_stock(seen) == StockCount(free=1, handed_over=1)


def test_stock_is_counted_once_by_where_it_is(story: Story) -> None:
    hand_over(story)
    operation = story.create(an_operation("op2"))
    story.create(a_stock_unit("claimed").claimed_by(operation))
    story.create(a_stock_unit("failed").failed())
    removed = story.create(a_stock_unit("removed"))
    story.delete(removed)
    count = count_stock(story.timeline(), removed={removed.uid})
    assert count == StockCount(free=1, claimed=1, handed_over=1, failed=1, removed=1)
    assert count.seeded == 5


def test_a_claim_given_up_and_taken_by_another_is_no_violation(story: Story) -> None:
    stock = story.create(a_stock_unit("s1"))
    one, other = story.create(an_operation("op1")), story.create(an_operation("op2"))
    story.update(stock.claimed_by(one))
    story.update(stock)
    story.update(stock.claimed_by(other))
    assert conservation(story.timeline()) == []


def test_a_stolen_claim_is_seen(story: Story) -> None:
    stock = story.create(a_stock_unit("s1"))
    one, other = story.create(an_operation("op1")), story.create(an_operation("op2"))
    story.update(stock.claimed_by(one))
    story.update(stock.claimed_by(other))
    [violation] = conservation(story.timeline())
    assert violation == (
        f"GPUUnit runtime-stock/s1 (uid {stock.uid}): its claim went from operation {one.uid} to {other.uid} "
        "at resourceVersion 5"
    )


def test_two_units_from_one_stock_unit_are_seen_even_after_both_are_gone(story: Story) -> None:
    operation = story.create(an_operation("op1"))
    stock = story.create(a_stock_unit("s1").claimed_by(operation))
    for name in ("u1", "u2"):
        story.delete(story.create(a_unit(name).consuming(stock)))
    story.delete(stock)
    [violation] = conservation(story.timeline())
    assert "s1" in violation
    assert "has two owners: GPUUnit runtime-instance/u1" in violation
    assert "and GPUUnit runtime-instance/u2" in violation


def test_a_hand_over_without_a_claim_is_seen(story: Story) -> None:
    stock = story.create(a_stock_unit("s1"))
    story.create(a_unit("u1").consuming(stock))
    story.delete(stock)
    [violation] = conservation(story.timeline())
    assert "was handed over to GPUUnit runtime-instance/u1" in violation
    assert violation.endswith("without a claim")


def test_stock_that_is_free_again_after_its_hand_over_is_seen(story: Story) -> None:
    operation = story.create(an_operation("op1"))
    stock = story.create(a_stock_unit("s1"))
    story.update(stock.claimed_by(operation))
    story.create(a_unit("u1").consuming(stock))
    story.update(stock)
    [violation] = conservation(story.timeline())
    assert "is free at resourceVersion 5, after it was handed over to GPUUnit runtime-instance/u1" in violation


def test_stock_claimed_by_one_operation_and_consumed_by_another_is_seen(story: Story) -> None:
    one, other = story.create(an_operation("op1")), story.create(an_operation("op2"))
    stock = story.create(a_stock_unit("s1").claimed_by(one))
    story.create(a_unit("u1").made_by(other).consuming(stock))
    story.delete(stock)
    [violation] = conservation(story.timeline())
    assert f"is claimed by operation {one.uid}, but" in violation
    assert violation.endswith(f"belongs to {other.uid}")


def test_lost_stock_is_seen_unless_it_was_removed_on_purpose(story: Story) -> None:
    stock = story.create(a_stock_unit("s1"))
    story.delete(stock)
    [violation] = conservation(story.timeline())
    assert violation.endswith("is gone, and no unit came of it")
    assert conservation(story.timeline(), removed=[stock.uid]) == []
    assert count_stock(story.timeline()) == StockCount(lost=1)


def test_stock_that_vanished_without_a_delete_of_ours_is_lost_too(story: Story) -> None:
    stock = story.create(a_stock_unit("s1"))
    del story.living[stock.uid]
    assert len(conservation(story.timeline())) == 1


def test_a_unit_from_stock_that_never_was_is_seen(story: Story) -> None:
    story.create(a_unit("u1").annotated({SOURCE_STOCK_UID: "nowhere"}))
    [violation] = conservation(story.timeline())
    assert violation.endswith("names stock nowhere, which never existed")


def test_a_unit_that_consumed_two_stock_units_is_seen(story: Story) -> None:
    operation = story.create(an_operation("op1"))
    one, other = (story.create(a_stock_unit(name).claimed_by(operation)) for name in ("s1", "s2"))
    unit = story.create(a_unit("u1").consuming(one))
    story.update(unit.consuming(other))
    [violation] = conservation(story.timeline())
    assert violation.endswith(f"consumed more than one stock unit: {one.uid}, {other.uid}")


def test_too_many_or_too_few_seeded_units_are_seen(story: Story) -> None:
    story.create(a_stock_unit("s1"))
    assert conservation(story.timeline(), seeded=2) == ["2 stock units should have been seeded, 1 were"]


def test_a_workload_of_a_unit_that_was_not_admitted_is_seen(story: Story) -> None:
    unit = story.create(a_unit("u1").made_by(story.create(an_operation("op1"))))
    story.create(a_deployment("u1", "runtime-instance").controlled_by(unit))
    [violation] = premature_workloads(story.timeline())
    assert violation.endswith("was not admitted")


def test_a_workload_beside_its_stock_is_seen(story: Story) -> None:
    operation = story.create(an_operation("op1"))
    stock = story.create(a_stock_unit("s1").claimed_by(operation))
    unit = story.create(a_unit("u1").made_by(operation).consuming(stock))
    story.create(a_deployment("u1", "runtime-instance").controlled_by(unit))
    assert len(premature_workloads(story.timeline())) == 1
    story.delete(stock)
    [violation] = premature_workloads(story.watched())
    assert "beside its stock GPUUnit runtime-stock/s1" in violation


def test_a_workload_of_stock_needs_no_stock_itself(story: Story) -> None:
    stock = story.create(a_stock_unit("s1").made_by(story.create(an_operation("op1", "CreateStockUnits"))))
    story.create(a_deployment("s1", stock.document()["metadata"]["namespace"]).controlled_by(stock))
    assert premature_workloads(story.timeline()) == []


def test_a_workload_of_a_unit_applied_by_hand_needs_no_stock(story: Story) -> None:
    unit = story.create(a_unit("u1"))
    story.create(a_deployment("u1", "runtime-instance").controlled_by(unit))
    assert premature_workloads(story.timeline()) == []
