"""`$(VAR)` expansion, by the cases that Kubernetes documents."""

from __future__ import annotations

import pytest

from gpu_runtime.local.node.expansion import expand

CASES = {
    "a known name is replaced": ("--port=$(PORT)", "--port=8080"),
    "an unknown name stays": ("$(NOPE)", "$(NOPE)"),
    "two dollars are one": ("$$(PORT)", "$(PORT)"),
    "three dollars are one and a value": ("$$$(PORT)", "$8080"),
    "a dollar alone stays": ("cost $5 $", "cost $5 $"),
    "an open bracket stays": ("$(PORT", "$(PORT"),
    "a value is not expanded again": ("$(LOOP)", "$(PORT)"),
    "shell syntax is left to the shell": ("${PORT} `x`", "${PORT} `x`"),
    "an empty name stays": ("$()", "$()"),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES)
def test_expand(text: str, want: str) -> None:
    assert expand(text, {"PORT": "8080", "LOOP": "$(PORT)"}) == want
