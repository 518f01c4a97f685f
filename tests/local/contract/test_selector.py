"""The schema of a label selector allows what Kubernetes allows: a watch hands it on as it came."""

from __future__ import annotations

import re

import pytest

from gpu_runtime.rest.selector import PATTERN


@pytest.mark.parametrize(
    "text", ["", "a", "!a", "team.example/name=a", "a_b.c-d in (x, Y.z),! b", "a!=", f"{'a' * 63}={'b' * 63}"]
)
def test_a_selector_of_kubernetes_is_allowed(text: str) -> None:
    assert re.search(PATTERN, text)


@pytest.mark.parametrize("text", ["!Tu1SFAR/lY", "a/b/c", "-a", "a=-", "a=b.", "/a", "a/", f"{'a' * 64}=b", "a in (-)"])
def test_a_selector_that_kubernetes_refuses_is_not_allowed(text: str) -> None:
    assert not re.search(PATTERN, text)
