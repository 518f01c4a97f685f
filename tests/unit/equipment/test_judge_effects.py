"""I1: each clause, for histories and replies that keep it and ones that break it."""

from __future__ import annotations

import pytest

from equipment.builders import a_stock_pool, a_stock_unit, a_unit, an_operation
from equipment.judge import Reply, one_effect, timeline
from gpu_runtime.api.v1alpha1.annotations import OPERATION_ID, REQUEST_HASH
from unit.equipment.story import Story

NOTHING = timeline()


@pytest.fixture
def story() -> Story:
    return Story()


def told(status: int | None, payload: str = "p", made: str | None = "u1", code: str = "") -> Reply:
    return Reply("CreateGPUUnit", "op1", payload, status, code, made if status in (200, 201, 202) else None)


def test_replays_that_agree_and_refusals_of_another_payload_are_right() -> None:
    replies = [told(201), told(200), told(None), told(503), told(409, "other", code="operation_conflict")]
    assert one_effect(NOTHING, replies) == []


def test_ids_of_different_operation_types_are_independent() -> None:
    replies = [told(201), Reply("CreateStockPool", "op1", "p", 202, made="pool")]
    assert one_effect(NOTHING, replies) == []


def test_replies_that_name_different_objects_are_seen() -> None:
    assert one_effect(NOTHING, [told(201), told(200, made="u2")]) == [
        "CreateGPUUnit op1: one reply names 'u1', another 'u2'"
    ]


def test_two_accepted_payloads_are_seen() -> None:
    assert one_effect(NOTHING, [told(201), told(200, "other")]) == [
        "CreateGPUUnit op1: two payloads were accepted: 'p' and 'other'"
    ]


def test_an_accepted_payload_that_is_refused_elsewhere_is_seen() -> None:
    assert one_effect(NOTHING, [told(409, code="operation_conflict"), told(201)]) == [
        "CreateGPUUnit op1: the accepted payload was also refused with operation_conflict"
    ]


def test_an_operation_that_was_undone_and_done_again_has_one_effect(story: Story) -> None:
    first = story.create(an_operation("op1"))
    inert = story.create(a_unit("u1").made_by(first))
    story.update(first.failed())
    story.delete(inert)
    story.delete(first)
    second = story.create(an_operation("op1"))
    unit = story.create(a_unit("u1").made_by(second))
    story.update(second.making(unit).committed())
    assert one_effect(story.timeline()) == []
    assert one_effect(story.watched()) == []


def test_two_records_of_one_operation_at_once_are_seen(story: Story) -> None:
    story.create(an_operation("op1"))
    story.create(an_operation("op1"))
    [violation] = one_effect(story.timeline())
    assert violation.startswith("CreateGPUUnit op1 has two records at once")


def test_an_operation_committed_twice_is_seen(story: Story) -> None:
    for _ in range(2):
        record = story.create(an_operation("op1"))
        story.update(record.committed())
        story.delete(record)
    [violation] = one_effect(story.watched())
    assert violation.startswith("CreateGPUUnit op1 was committed 2 times")


def test_a_committed_record_whose_object_is_missing_is_seen(story: Story) -> None:
    record = story.create(an_operation("op1").making(a_unit("u1")).committed())
    [violation] = one_effect(story.timeline())
    assert violation.endswith("is committed, but GPUUnit runtime-instance/u1 is not there")
    story.create(a_unit("u1"))
    assert one_effect(story.timeline()) == []
    story.update(record.making(a_unit("u2")).status(deletionTime="2020-01-01T00:00:00Z"))
    assert one_effect(story.timeline()) == []


def test_a_committed_record_is_not_satisfied_by_another_object_of_the_name(story: Story) -> None:
    story.create(an_operation("op1").making(a_unit("u1").with_uid("the-first")).committed())
    story.create(a_unit("u1"))
    assert len(one_effect(story.timeline())) == 1


def test_two_objects_of_one_operation_at_once_are_seen(story: Story) -> None:
    for name in ("u1", "u2"):
        story.create(a_unit(name).annotated({OPERATION_ID: "op1"}))
    [violation] = one_effect(story.timeline())
    assert violation.startswith("operation op1 made 2 of GPUUnit, not 1: ")


def test_two_objects_are_seen_even_when_both_are_gone_in_the_end(story: Story) -> None:
    units = [story.create(a_unit(name).annotated({OPERATION_ID: "op1"})) for name in ("u1", "u2")]
    for unit in units:
        story.delete(unit)
    assert len(one_effect(story.watched())) == 1


def test_a_seeding_makes_as_many_as_it_was_asked_for_and_no_more(story: Story) -> None:
    for number in range(3):
        story.create(a_stock_unit(f"s{number}").annotated({OPERATION_ID: "op1"}))
    story.create(a_unit("u1").annotated({OPERATION_ID: "op1"}))
    story.create(a_stock_pool("p1").annotated({OPERATION_ID: "op1"}))
    assert one_effect(story.timeline(), expected={"op1": 3}) == []
    [violation] = one_effect(story.timeline(), expected={"op1": 2})
    assert violation.startswith("operation op1 made 3 of stock GPUUnit, not 2: ")


def test_objects_of_one_operation_from_different_requests_are_seen(story: Story) -> None:
    for number in range(2):
        story.create(a_stock_unit(f"s{number}").annotated({OPERATION_ID: "op1", REQUEST_HASH: str(number)}))
    [violation] = one_effect(story.timeline(), expected={"op1": 2})
    assert violation.startswith("operation op1 made stock GPUUnit from different requests")
