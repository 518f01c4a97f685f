"""Versions that a server no longer keeps: both say so in the same form."""

from __future__ import annotations

from pathlib import Path

from equipment.servers import use_running
from kube.differential.call import Call, case, get, post, quietly, until
from kube.differential.objects import CONFIGMAPS, configmap
from kube.differential.running import Pair, run
from kube.differential.servers import BareControlPlane, embedded_server
from kube.differential.tolerated import Tolerance

HISTORY = 20
WRITES = tuple(quietly(post(CONFIGMAPS, configmap(f"a{number}"))) for number in range(2 * HISTORY))
OLD = {"resourceVersion": "1"}
GONE = (
    until(410, get(CONFIGMAPS, resourceVersionMatch="Exact", **OLD)),
    Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "timeoutSeconds": "3", **OLD}, events=1),
)
# How far back a server remembers is its own affair, and its message tells.
WORDLESS = "events[0].object.message"


class Forgetful(BareControlPlane):
    """Compacts etcd all the time."""

    options = ("--etcd-compaction-interval=1s",)


async def test_a_version_past_what_is_kept_is_answered_with_410(tmp_path: Path) -> None:
    with (
        Forgetful(tmp_path / "real", say=lambda _: None) as plane,
        use_running(plane.kubeconfig, tmp_path) as real,
        embedded_server(tmp_path / "embedded", "--history-events", str(HISTORY)) as embedded,
    ):
        pair = Pair(real, embedded)
        assert not await run(case("many writes", *WRITES), pair, "many", Tolerance([]))
        plane.forget()
        found = await run(case("gone", *GONE), pair, "gone", Tolerance([]))
    assert not [difference for each in found for difference in each.differences if difference.field != WORDLESS], found
