"""How lives are put together from writes, events and listings."""

from __future__ import annotations

from dataclasses import replace

from equipment.builders import a_config_map
from equipment.judge import timeline
from unit.equipment.story import Story


def test_writes_and_events_tell_the_same_life() -> None:
    story = Story()
    first = story.create(a_config_map("a", "ns").annotated({"x": "1"}))
    second = story.update(first.annotated({"x": "2"}))
    story.update(second.labelled({"unrelated": "yes"}))
    story.delete(second)
    written, [watched] = story.timeline().lives[first.uid], story.watched().lives.values()
    for life in (written, watched):
        assert life.annotation("x") == [(1, "1"), (2, "2")]
        assert life.gone
        assert str(life) == "ConfigMap ns/a (uid uid-1)"
    assert (written.end, watched.end) == (3, 4)


def test_states_are_ordered_by_version_whatever_the_order_of_answers() -> None:
    story = Story()
    first = story.create(a_config_map("a").annotated({"x": "1"}))
    for value in ("2", "3"):
        story.update(first.annotated({"x": value}))
    created, second, third = story.exchanges
    [life] = timeline([created, third, second]).lives.values()
    assert [value for _, value in life.annotation("x")] == ["1", "2", "3"]


def test_an_object_seen_only_in_listings_lives_too() -> None:
    listed = a_config_map("a").with_uid("u").at_version(7).document()
    [life] = timeline(before=[listed], after=[]).lives.values()
    assert (life.begin, life.gone) == (7, True)
    [life] = timeline(after=[listed]).lives.values()
    assert (life.gone, life.end) == (False, float("inf"))


def test_without_a_last_listing_nothing_is_taken_for_gone() -> None:
    listed = a_config_map("a").with_uid("u").at_version(7).document()
    [life] = timeline(before=[listed]).lives.values()
    assert not life.gone


def test_a_dry_run_a_refusal_and_a_scale_make_no_state() -> None:
    story = Story()
    story.create(a_config_map("a"))
    [stored] = story.exchanges
    assert len(timeline([stored]).lives) == 1
    unsaved = [
        replace(stored, call=replace(stored.call, query={"dryRun": "All"})),
        replace(stored, status=409),
        replace(stored, call=replace(stored.call, subresource="scale")),
        replace(stored, status=None),
    ]
    assert timeline(unsaved).lives == {}
