"""`kubectl top`, of which a bare real cluster has none to compare with."""

from __future__ import annotations

import re

from equipment.waiting import eventually_sync
from local.shells.person import Person
from local.shells.scenarios import POD

ROW = re.compile(r"^(\S+) +(\d+)m +(?:\d+% +)?(\d+)Mi", re.MULTILINE)


def used(person: Person, *words: str) -> dict[str, tuple[int, int]]:
    """Thousandths of a core and MiB of memory by name."""
    done = person.run("top", *words)
    assert done.code == 0, done
    return {row[1]: (int(row[2]), int(row[3])) for row in ROW.finditer(done.output.decode())}


def test_a_busy_pod_is_seen_and_an_idle_one_beside_it(person: Person) -> None:
    hold = "x = bytearray(60_000_000)\nx[::4096] = b'1' * len(x[::4096])\nprint('begun', flush=True)\nwhile True: pass"
    with person.started("exec", POD, "--", "python3", "-c", hold) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == b"begun\n"

        def busy() -> bool:
            found = used(person, "pods")
            return found[POD][0] > 10 and found[POD][1] > 55 and found["modest"][0] < found[POD][0]

        eventually_sync(busy, what="the busy pod stands out")
    eventually_sync(lambda: used(person, "pod", POD)[POD][1] < 55, what="its memory is free again")


def test_nodes_and_containers_have_their_rows(person: Person) -> None:
    (node,) = used(person, "nodes").values()
    assert node[1] > 0
    assert re.search(rf"^{POD} +main +\d+m", person.run("top", "pods", "--containers").output.decode(), re.MULTILINE)


def test_what_is_not_measured_is_not_found(person: Person) -> None:
    done = person.run("top", "pod", "no-such")
    missing = f'pods.metrics.k8s.io "{person.namespace}/no-such" not found'
    assert (done.code, done.errors) == (1, f"Error from server (NotFound): {missing}\n")
    assert person.run("top", "pods", "-l", "no=such").errors == f"No resources found in {person.namespace} namespace.\n"
    base = "/apis/metrics.k8s.io/v1beta1"
    assert [
        person.server.request(*call).status
        for call in (
            ("GET", f"{base}/pods?labelSelector=%28"),
            ("DELETE", f"{base}/nodes"),
            ("GET", f"{base}/services"),
            ("GET", f"{base}/nodes/no-such"),
        )
    ] == [400, 405, 404, 404]
