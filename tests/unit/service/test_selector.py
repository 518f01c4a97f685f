"""Label selectors mean what kubectl's mean."""

from __future__ import annotations

import pytest

from gpu_runtime.rest.selector import Selector

LABELS = {"app": "web", "tier": "front", "team.example/name": "a"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=front", True),
        ("app=api", False),
        ("app!=api", True),
        ("none!=x", True),
        ("app in (web, api)", True),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("! app", False),
        ("team.example/name=a,app in (web),!none", True),
        ("app=", False),
    ],
)
def test_a_selector_picks_objects_by_their_labels(text: str, matches: bool) -> None:
    assert Selector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["a b", "=x", "a=b c", "a in b", "a in (b", "a=b,,c", "ä=b", "a>1"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a label selector"):
        Selector.parse(text)
