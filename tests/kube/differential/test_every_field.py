"""Each field of each kind, wrong in each way: what random calls find after many runs is found in every run."""

from __future__ import annotations

import secrets
from typing import TextIO

import pytest

from kube.differential.generated.kinds import KINDS, Kind
from kube.differential.generated.sweep import sweep
from kube.differential.running import Pair, describe
from kube.differential.tolerated import Tolerance


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
async def test_a_wrong_field_is_answered_the_same(kind: Kind, pair: Pair, tolerance: Tolerance, report: TextIO) -> None:
    calls, found = await sweep(kind, pair, secrets.token_hex(3), tolerance)
    text = "\n".join(f"{describe(one.step)} {getattr(one.step, 'body', '')}\n  {one}" for one in found)
    report.write(text)
    assert calls > 100
    assert not found, text
