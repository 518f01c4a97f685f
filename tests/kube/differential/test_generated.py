"""Generated calls: what nobody thought of writing down as a case."""

from __future__ import annotations

import secrets
import sys
from typing import TextIO

import pytest

from equipment.seeds import fresh_seed
from equipment.servers import ApiServer
from equipment.soak import Soak
from kube.differential.generated.lanes import Outcome, run_lanes
from kube.differential.running import Pair
from kube.differential.tolerated import Tolerance

CALLS = 2000
FIXED_SEED = "one"
SEED = "GPU_RUNTIME_DIFFERENTIAL_SEED"
"""Set to the seed that a run printed, it sends the same calls again."""


def served(server: ApiServer) -> set[tuple[str, str]]:
    """Every resource and verb that a server says it serves."""
    paths = ["/api/v1"]
    for group in server.request("GET", "/apis").body["groups"]:
        paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    found = set()
    for path in paths:
        if path.count(".example.com") and "differential" not in path:
            continue  # a CRD that some case made
        for resource in server.request("GET", path).body["resources"]:
            found |= {(resource["name"], verb) for verb in resource["verbs"]}
    return found


def summary(outcome: Outcome) -> str:
    lines = [f"{wish.verb} {wish.kind.resource} ({wish.flavour})\n  {found}" for wish, found in outcome.mismatches]
    return "\n".join(lines)


@pytest.mark.usefixtures("scene")
async def test_generated_calls_are_answered_the_same(
    pair: Pair, tolerance: Tolerance, report: TextIO, capsys: pytest.CaptureFixture[str]
) -> None:
    await compare(FIXED_SEED, pair, tolerance, report, capsys)


@pytest.mark.usefixtures("scene")
async def test_calls_that_no_run_sent_before_are_answered_the_same(
    pair: Pair, tolerance: Tolerance, report: TextIO, capsys: pytest.CaptureFixture[str], soak: Soak
) -> None:
    first = fresh_seed(SEED) if soak.given_seed is None else str(soak.seed)
    for number in range(soak.rounds(1)):
        await compare(f"{first}-{number}" if number else first, pair, tolerance, report, capsys)


async def compare(
    seed: str, pair: Pair, tolerance: Tolerance, report: TextIO, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_lanes(pair, seed, CALLS, secrets.token_hex(3), tolerance)
    with capsys.disabled():
        sys.stdout.write(f"\nseed {seed}: {outcome.told()}\n{outcome.table()}\n")
    report.write(summary(outcome) + "\n")
    assert not outcome.mismatches, summary(outcome)
    assert outcome.calls >= CALLS
    assert outcome.succeeded * 2 >= outcome.calls
    if pair.left != pair.right:  # the real server serves more than we compare
        called = {(kind, verb) for kind, verbs in outcome.verbs.items() for verb in verbs}
        missing = sorted(served(pair.right) - called)
        assert not missing
