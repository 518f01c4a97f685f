"""The list of tolerated differences stays short, honest and needed."""

from __future__ import annotations

import pytest

from kube.differential.cases import ALL
from kube.differential.running import Pair
from kube.differential.tolerated import LIMIT, OURS, Tolerance


def test_the_list_is_short_and_spares_what_we_write(tolerance: Tolerance) -> None:
    assert len(tolerance.entries) <= LIMIT
    assert len(set(tolerance.entries)) == len(tolerance.entries)
    assert not [entry for entry in tolerance.entries if entry.kind.split("/")[0] in OURS or entry.verb == "watch"]


def test_every_entry_is_needed(request: pytest.FixtureRequest, pair: Pair, tolerance: Tolerance) -> None:
    """Runs last, by the name of its file; says nothing when only a part of the cases ran."""
    ran = sum(item.path.name in ("test_cases.py", "test_generated.py") for item in request.session.items)
    if ran <= len(ALL) or pair.left == pair.right:
        return
    assert set(tolerance.entries) == tolerance.used
