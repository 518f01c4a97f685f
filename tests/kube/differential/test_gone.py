"""Versions that a server no longer keeps: both say so in the same form."""

from __future__ import annotations

import secrets
from pathlib import Path

from kube.differential.call import Call, case, get, post, quietly
from kube.differential.objects import CONFIGMAPS, configmap
from kube.differential.running import Pair, run
from kube.differential.servers import embedded_server
from kube.differential.tolerated import Tolerance

HISTORY = 20
WRITES = tuple(quietly(post(CONFIGMAPS, configmap(f"a{number}"))) for number in range(2 * HISTORY))
OLD = {"resourceVersion": "1"}
GONE = (
    Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "timeoutSeconds": "3", **OLD}, events=1),
    get(CONFIGMAPS, resourceVersionMatch="Exact", **OLD),
)
# How far back a server remembers is its own affair, and its message tells.
WORDLESS = ("events[0].object.message",)


async def test_a_version_past_what_is_kept_is_answered_with_410(
    pair: Pair, tmp_path: Path, tolerance: Tolerance
) -> None:
    with embedded_server(tmp_path / "forgetful", "--history-events", str(HISTORY)) as server:
        found = await run(
            case("gone", *WRITES, *GONE), Pair(pair.left, server), f"gone-{secrets.token_hex(3)}", tolerance
        )
    assert not [difference for each in found for difference in each.differences if difference.field not in WORDLESS], (
        found
    )
