"""Named cases: the embedded server answers as the real one does."""

from __future__ import annotations

import secrets
from typing import TextIO

import pytest

from kube.differential.call import Case
from kube.differential.cases import ALL
from kube.differential.running import Pair, run
from kube.differential.tolerated import Tolerance

RUN = secrets.token_hex(3)
NUMBERED = [pytest.param(index, case, id=f"{subject}: {case.name}") for index, (subject, case) in enumerate(ALL)]


def test_there_are_at_least_300_cases_and_no_name_twice() -> None:
    names = [case.name for _, case in ALL]
    assert len(names) >= 300
    assert len(set(names)) == len(names)


def test_both_servers_take_the_definitions_that_cases_stand_on(scene: list[str]) -> None:
    assert not scene


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(("index", "case"), NUMBERED)
async def test_the_answers_are_the_same(
    index: int, case: Case, pair: Pair, tolerance: Tolerance, report: TextIO
) -> None:
    found = await run(case, pair, f"d{index}-{RUN}", tolerance)
    text = f"{case.name}\n" + "\n".join(f"  {mismatch}" for mismatch in found)
    if found:
        report.write(f"{text}\n")
    assert not found, text
