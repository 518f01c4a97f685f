"""Conditions: transition times move with the status alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.api.meta.condition import Condition, find_condition, set_condition

START = datetime(2030, 1, 31, 12, 0, 0, tzinfo=UTC)
LATER = START + timedelta(hours=1)


def test_a_new_condition_begins_now() -> None:
    conditions = set_condition([], Condition.false("Ready", "UnitProgressing"), START)
    assert [(c.type, c.status, c.lastTransitionTime) for c in conditions] == [("Ready", "False", START)]


def test_the_transition_time_stays_while_the_status_does() -> None:
    before = set_condition([], Condition.false("Ready", "UnitProgressing", "starting", 1), START)
    after = set_condition(before, Condition.false("Ready", "PodStartupFailed", "no image", 2), LATER)
    ready = find_condition(after, "Ready")
    assert ready is not None
    assert (ready.reason, ready.message, ready.observedGeneration) == ("PodStartupFailed", "no image", 2)
    assert ready.lastTransitionTime == START


def test_the_transition_time_moves_with_the_status() -> None:
    before = set_condition([], Condition.false("Ready", "UnitProgressing"), START)
    ready = find_condition(set_condition(before, Condition.true("Ready", "UnitReady"), LATER), "Ready")
    assert ready is not None
    assert ready.lastTransitionTime == LATER


def test_saying_the_same_again_changes_nothing() -> None:
    before = set_condition([], Condition.unknown("Ready", "Waiting", "for a node", 4), START)
    assert set_condition(before, Condition.unknown("Ready", "Waiting", "for a node", 4), LATER) == before


def test_the_given_conditions_are_left_as_they_were() -> None:
    before = set_condition([], Condition.false("Ready", "UnitProgressing"), START)
    kept = list(before)
    set_condition(before, Condition.true("Ready", "UnitReady"), LATER)
    assert before == kept


def test_times_have_whole_seconds_on_the_wire() -> None:
    conditions = set_condition([], Condition.true("Ready", "UnitReady"), START.replace(microsecond=123456))
    assert b'"lastTransitionTime":"2030-01-31T12:00:00Z"' in msgspec.json.encode(conditions)


def test_a_condition_that_is_not_there_is_not_found() -> None:
    assert find_condition([], "Ready") is None


steps = st.lists(st.tuples(st.sampled_from(["Ready", "Prepared"]), st.sampled_from(["True", "False", "Unknown"])))


@given(steps)
def test_over_any_history_each_type_occurs_once_and_its_time_is_that_of_its_last_change(
    history: list[tuple[str, str]],
) -> None:
    conditions: list[Condition] = []
    last: dict[str, tuple[str, datetime]] = {}
    for minute, (name, status) in enumerate(history):
        now = START + timedelta(minutes=minute)
        new = {"True": Condition.true, "False": Condition.false, "Unknown": Condition.unknown}[status](name, "Because")
        conditions = set_condition(conditions, new, now)
        if name not in last or last[name][0] != status:
            last[name] = (status, now)
    assert {c.type: (c.status, c.lastTransitionTime) for c in conditions} == last
    assert len(conditions) == len(last)
