"""`kubectl logs` shows the same output on both servers: what is there, and what comes while it looks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from equipment.servers import ApiServer
from equipment.waiting import eventually_sync
from kube.differential.running import Pair
from kube.differential.servers import embedded_server, own_real_server
from kube.kubectl.invocation import Invocation, Result, Terminal
from kube.kubectl.kubelet import LOOPBACK, Files, Kubelet, Output, played_kubelet
from kube.kubectl.programs import PROGRAMS, binary

LABELS = {"app": "talker"}
READ = (
    "logs talker",
    "logs pod/talker -c main",
    "logs -l app=talker",
    "logs -l app=talker --prefix",
    "logs talker --tail=1",
    "logs talker --tail=0",
    "logs talker --timestamps",
    "logs talker --all-containers",
    "logs talker -c other",
    "logs talker --tail=-2",
    "logs talker --limit-bytes=-1",
    "logs talker --since=1s --since-time=2020-01-01T00:00:00Z",
)


@dataclass
class Talker:
    """A pod on one server whose output the test writes."""

    terminal: Terminal
    output: Output


@pytest.fixture(scope="module")
def servers(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServer, ApiServer]]:
    """The real server is one of our own: one that the environment names would not trust the kubelet that is played."""
    folder = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        real = pair.left if pair.left.plane is not None else stack.enter_context(own_real_server(folder / "real"))
        yield real, stack.enter_context(embedded_server(folder / "embedded"))


@pytest.fixture
def kubelet(servers: tuple[ApiServer, ApiServer]) -> Iterator[Kubelet]:
    plane = servers[0].plane
    assert plane is not None
    with played_kubelet(plane.authority) as kubelet:
        yield kubelet


def talking(server: ApiServer, program: str, folder: Path, kubelet: Kubelet) -> Talker:
    """A running pod on a node of the server, which is reached at the played kubelet where there is no other."""
    name = f"l-{secrets.token_hex(4)}"
    address = {"addresses": [{"type": "InternalIP", "address": LOOPBACK}]}
    port = {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.server_port}}}
    pod = {
        "metadata": {"name": "talker", "labels": LABELS},
        "spec": {"nodeName": name, "containers": [{"name": "main", "image": "busybox"}]},
    }
    running = {"status": {"phase": "Running"}}
    created = {}
    for path, body in (
        ("namespaces", {"metadata": {"name": name}}),
        (f"namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}),
        ("nodes", {"metadata": {"name": name}, "status": {**address, **port}}),
        (f"namespaces/{name}/pods", pod),
    ):
        answer = server.request("POST", f"/api/v1/{path}", body)
        assert answer.status == 201, answer
        created = answer.body
    answer = server.request("PUT", f"/api/v1/namespaces/{name}/pods/talker/status", {**created, **running})
    assert answer.status == 200, answer
    folder.mkdir()
    pod_folder = server.kubeconfig.parent / "pods" / created["metadata"]["uid"]
    output = kubelet if server.plane is not None else Files(pod_folder, "main")
    return Talker(Terminal(server, binary(program), folder, {"ns": name}), output)


@pytest.fixture(params=PROGRAMS)
def talkers(
    request: pytest.FixtureRequest, servers: tuple[ApiServer, ApiServer], kubelet: Kubelet, tmp_path: Path
) -> list[Talker]:
    found = [talking(server, request.param, tmp_path / str(at), kubelet) for at, server in enumerate(servers)]
    for talker in found:
        talker.output.write("2020-01-01T00:00:00.000000001Z", "one thing")
        talker.output.write("2020-01-01T00:00:01.000000001Z", "another")
    return found


def test_what_is_there_is_shown_the_same(talkers: list[Talker]) -> None:
    seen: dict[str, list[Result]] = {
        typed: [talker.terminal.run(Invocation(typed)) for talker in talkers] for typed in READ
    }
    assert seen["logs talker"][0].output == "one thing\nanother\n"
    assert [typed for typed, (left, right) in seen.items() if left != right] == [], seen


@pytest.mark.parametrize("how", ["logs -f talker", "logs -f -l app=talker --prefix", "logs --follow talker --tail=1"])
def test_what_comes_is_shown_while_it_comes(talkers: list[Talker], how: str, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{at}.out" for at, _ in enumerate(talkers)]
    with ExitStack() as stack:
        watching = [
            stack.enter_context(talker.terminal.started(how, output))
            for talker, output in zip(talkers, outputs, strict=True)
        ]
        shown(outputs, "another\n")
        for talker in talkers:
            talker.output.write("2020-01-01T00:00:02.000000001Z", "and more")
        shown(outputs, "and more\n")
        assert [process.poll() for process in watching] == [None, None]
        for talker in talkers:
            talker.output.end()
        assert [process.wait(60) for process in watching] == [0, 0]
    left, right = (output.read_text() for output in outputs)
    assert left == right


def shown(outputs: list[Path], end: str) -> None:
    eventually_sync(
        lambda: all(output.read_text().endswith(end) for output in outputs), within=60, what=f"{end!r} is shown"
    )


def test_a_follower_that_leaves_is_forgotten(talkers: list[Talker], tmp_path: Path) -> None:
    for talker in talkers:
        with talker.terminal.started("logs -f talker", tmp_path / "out") as process:
            shown([tmp_path / "out"], "another\n")
            process.kill()
            assert process.wait(60) != 0
        assert talker.terminal.run(Invocation("logs talker --tail=1")).output == "another\n"
