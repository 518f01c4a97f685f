"""kubectl cannot tell the two servers apart."""

from __future__ import annotations

import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat, zip_longest
from pathlib import Path

import pytest

from kube.differential.running import Pair
from kube.kubectl.invocation import Invocation, Result, Scenario, Terminal
from kube.kubectl.programs import PROGRAMS, binary
from kube.kubectl.scenarios import SCENARIOS

PROMISED = (
    "get", "wait", "describe", "logs", "scale", "rollout status", "rollout undo", "rollout restart", "apply", "create",
    "replace", "patch", "label", "annotate", "edit", "explain", "delete", "api-resources",
)  # fmt: skip


def test_every_promised_verb_occurs_in_at_least_60_invocations() -> None:
    typed = [step.args for scenario in SCENARIOS for step in scenario.steps]
    assert len(typed) >= 60
    assert not [verb for verb in PROMISED if not any(args.startswith(verb) for args in typed)]


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_kubectl_says_the_same(scenario: Scenario, program: str, pair: Pair, tmp_path: Path) -> None:
    namespace = f"k-{secrets.token_hex(4)}"
    sides = []
    for name, server in (("l", pair.left), ("r", pair.right)):
        folder = tmp_path / name
        folder.mkdir()
        sides.append(Terminal(server, binary(program), folder, {"ns": f"{namespace}-{name}"}))
        made = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"{namespace}-{name}"}})
        assert made.status == 201, made
    with ThreadPoolExecutor(len(sides)) as both:
        found = [difference(step, *both.map(Terminal.run, sides, repeat(step))) for step in scenario.steps]
    assert not any(found), "\n".join(text for text in found if text)


def difference(step: Invocation, left: Result, right: Result) -> str:
    """What a person would see differently; empty when it is the same."""
    if left.code != right.code:
        return f"kubectl {step.args}\n  exit {left.code} / {right.code}\n  {left.errors}  {right.errors}"
    if not step.output:
        return ""
    one_text, other_text = (compared(step, result.output + result.errors) for result in (left, right))
    pairs = zip_longest(one_text.splitlines(), other_text.splitlines())
    changed = [f"  - {one}\n  + {other}" for one, other in pairs if one != other]
    return "\n".join([f"kubectl {step.args}", *changed]) if changed else ""


def compared(step: Invocation, text: str) -> str:
    return re.sub(step.apart, "", text) if step.apart else text
