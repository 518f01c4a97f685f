"""Waiting ends with the condition, or says what was seen instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from equipment.waiting import Changes, eventually, eventually_sync


def answers(*values: object) -> Callable[[], object]:
    """A probe that gives these answers in turn; an exception among them is raised."""
    left: Iterator[object] = iter(values)

    def probe() -> object:
        value = next(left)
        if isinstance(value, Exception):
            raise value
        return value

    return probe


async def test_the_first_truthy_value_is_returned() -> None:
    assert await eventually(answers(None, 0, AssertionError("not yet"), "there")) == "there"
    assert eventually_sync(answers(None, 0, AssertionError("not yet"), "there")) == "there"


async def test_an_async_probe_is_awaited() -> None:
    probe = answers([], [1])

    async def ask() -> object:
        return probe()

    assert await eventually(ask) == [1]


async def test_a_failure_says_what_was_awaited_and_last_seen() -> None:
    with pytest.raises(AssertionError, match=r"the moon: not within 0.01 s \(\d+ attempts\); last seen: \[\]"):
        await eventually(list, within=0.01, what="the moon")

    def never() -> bool:
        raise AssertionError("1 != 2")

    with pytest.raises(AssertionError, match="last seen: AssertionError: 1 != 2"):
        eventually_sync(never, within=0.01)


async def test_an_error_that_is_no_assertion_ends_the_wait_at_once() -> None:
    with pytest.raises(KeyError):
        await eventually(answers(KeyError("bug")))


async def test_a_change_wakes_those_who_wait_for_it() -> None:
    changes, seen = Changes(), list[int]()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(changes.until(lambda: seen))
        await asyncio.sleep(0)
        changes.notify()
        await asyncio.sleep(0)
        assert not waiting.done()
        seen.append(1)
        changes.notify()
        assert await waiting == [1]


async def test_a_change_that_never_comes_fails_in_words() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: no moon"):
        await Changes().expect(lambda: False, within=0.01, what=lambda: "no moon")
