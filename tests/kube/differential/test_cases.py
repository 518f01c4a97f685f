"""Named cases: the embedded server answers as the real one does."""

from __future__ import annotations

import asyncio
import secrets
from typing import TextIO

import pytest

from kube.differential.call import Call, Case
from kube.differential.cases import ALL
from kube.differential.running import Mismatch, Pair, run
from kube.differential.tolerated import Tolerance

RUN = secrets.token_hex(3)
NUMBERED = [pytest.param(index, case, id=f"{subject}: {case.name}") for index, (subject, case) in enumerate(ALL)]
AT_ONCE = 8

Found = dict[int, list[Mismatch] | BaseException]


def waits(case: Case) -> bool:
    """Whether the case is mostly spent waiting. The real server puts the first create of a new kind off for 2 s."""
    return any(isinstance(step, Call) and step.until for step in case.steps)


@pytest.fixture(scope="session")
def waited_for(request: pytest.FixtureRequest, pair: Pair, scene: list[str], tolerance: Tolerance) -> Found:
    """What the waiting cases of this session found, by their number: they wait together, each in its namespace."""
    asked = {
        int(str(item.callspec.params["index"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_the_answers_are_the_same.__name__
    }
    numbers = [index for index in sorted(asked) if waits(ALL[index][1])]
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(index: int) -> list[Mismatch]:
        async with turn:
            return await run(ALL[index][1], pair, f"d{index}-{RUN}", tolerance)

    async def all_of_them() -> list[list[Mismatch] | BaseException]:
        return await asyncio.gather(*map(one, numbers), return_exceptions=True)

    return dict(zip(numbers, asyncio.run(all_of_them()), strict=True)) if not scene else {}


def test_there_are_at_least_300_cases_and_no_name_twice() -> None:
    names = [case.name for _, case in ALL]
    assert len(names) >= 300
    assert len(set(names)) == len(names)


def test_both_servers_take_the_definitions_that_cases_stand_on(scene: list[str]) -> None:
    assert not scene


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(("index", "case"), NUMBERED)
async def test_the_answers_are_the_same(
    index: int, case: Case, pair: Pair, tolerance: Tolerance, report: TextIO, waited_for: Found
) -> None:
    found = waited_for[index] if index in waited_for else await run(case, pair, f"d{index}-{RUN}", tolerance)
    if isinstance(found, BaseException):
        raise found
    text = f"{case.name}\n" + "\n".join(f"  {mismatch}" for mismatch in found)
    if found:
        report.write(f"{text}\n")
    assert not found, text
