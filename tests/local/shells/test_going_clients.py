"""Where the embedded cluster does better than a real one: clients that go or stop reading, commands that do neither."""

from __future__ import annotations

import secrets
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from equipment.waiting import eventually_sync
from local.shells.forwarding import a_server, as_sent, echoed, forwarded
from local.shells.person import Person
from local.shells.scenarios import POD
from local.shells.world import container, pod


def test_input_that_a_command_does_not_read_does_not_hold_it(person: Person) -> None:
    done = person.exec(POD, "sh", "-c", "head -c 3; exit 5", given=b"abc" * 500_000)
    assert (done.code, done.output) == (5, b"abc")


def test_a_command_whose_client_vanishes_ends_with_all_it_started(person: Person) -> None:
    marks = [f"9{secrets.randbelow(10**6):06}{at}" for at in range(3)]
    script = f"setsid sh -c 'setsid sleep {marks[0]} & sleep {marks[1]}' & echo begun; sleep {marks[2]}"
    with person.started("exec", POD, "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == b"begun\n"
        eventually_sync(lambda: all(person.processes(POD, f"sleep {mark}") for mark in marks), what="all run")
        process.kill()
        process.wait()
    for mark in marks:
        person.no_process(POD, f"sleep {mark}")


def test_a_terminal_that_is_closed_ends_what_ran_in_it(person: Person) -> None:
    mark = f"6{secrets.randbelow(10**6):06}"
    with person.terminal("exec", "-it", POD, "--", "sh", "-c", f"trap '' HUP; sleep {mark}; sleep {mark}"):
        eventually_sync(lambda: person.processes(POD, f"sleep {mark}"), what="it sleeps")
    person.no_process(POD, f"sleep {mark}")


def test_a_forwarded_connection_carries_the_end_of_each_direction(person: Person) -> None:
    with a_server(person) as port, forwarded(person, port) as (_, (here,)):
        for content in (b"", b"x", secrets.token_bytes(1_000_000)):
            assert echoed(here, content, until_end=True) == as_sent(content)


def test_a_pod_ends_at_once_although_people_are_in_it(person: Person) -> None:
    name = f"left-{secrets.token_hex(3)}"
    path = f"/api/v1/namespaces/{person.namespace}/pods"
    assert person.server.request("POST", path, pod(name)).status == 201
    eventually_sync(lambda: person.exec(name, "true").code == 0, what="it can be entered")
    with (
        person.started("exec", name, "--", "sh", "-c", "setsid sleep 36000 & echo in; sleep 36000") as first,
        person.terminal("exec", "-it", name, "--", "sh", "-c", "echo in; sleep 36000") as second,
    ):
        assert first.stdout is not None
        assert first.stdout.read(3) == b"in\n"
        second.expect("in\r\n")
        assert person.run("delete", "pod", name, "--timeout=60s").code == 0
        assert [first.wait(60), second.wait()] == [137, 137]


def test_an_attached_client_that_stops_reading_does_not_hold_the_container(person: Person) -> None:
    name = f"talker-{secrets.token_hex(3)}"
    script = "until [ -e /tmp/go ]; do echo tick; sleep 0.1; done; seq 1000000; echo end"
    path = f"/api/v1/namespaces/{person.namespace}/pods"
    made = person.server.request("POST", path, pod(name, container(command=["sh", "-c", script])))
    assert made.status == 201, made
    eventually_sync(lambda: person.exec(name, "true").code == 0, what="it runs")
    with person.started("attach", name) as slow, person.started("attach", name) as other:
        for client in (slow, other):
            assert client.stdout is not None
            assert client.stdout.read(5) == b"tick\n"
        slow.send_signal(signal.SIGSTOP)
        other.kill()  # and one that vanishes
        assert person.exec(name, "touch", "/tmp/go").code == 0
        ended = person.run("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
        assert ended.code == 0, ended
    assert person.run("logs", name, "--tail=1").output == b"end\n"


def test_all_who_are_attached_see_the_same(person: Person) -> None:
    name = f"talker-{secrets.token_hex(3)}"
    script = "until [ -e /tmp/go ]; do echo tick; sleep 0.1; done; seq 20000; printf 'no line end'"
    path = f"/api/v1/namespaces/{person.namespace}/pods"
    made = person.server.request("POST", path, pod(name, container(command=["sh", "-c", script])))
    assert made.status == 201, made
    eventually_sync(lambda: person.exec(name, "true").code == 0, what="it runs")
    with person.started("attach", name) as first, person.started("attach", name) as second:
        for client in (first, second):
            assert client.stdout is not None
            assert client.stdout.read(5) == b"tick\n"
        assert person.exec(name, "touch", "/tmp/go").code == 0
        wanted = "".join(f"{number}\n" for number in range(1, 20_001)).encode() + b"no line end"
        with ThreadPoolExecutor(2) as pool:
            heard = list(pool.map(lambda client: client.communicate()[0].replace(b"tick\n", b""), (first, second)))
        assert heard == [wanted, wanted]


def pipes_of_the_server(person: Person) -> int:
    """How many pipes the API server has open: the ends of the commands' streams are such."""
    folder = str(person.server.kubeconfig.parent).encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"local-cluster" in words and folder in words:
                return sum(str(each.readlink()).startswith("pipe:") for each in (process / "fd").iterdir())
        except OSError:  # it has just ended
            continue
    raise AssertionError("the server is not there")


def test_the_server_keeps_no_file_of_commands_that_have_ended(person: Person) -> None:
    before = pipes_of_the_server(person)
    for _ in range(5):
        assert person.exec(POD, "true").code == 0
        assert person.exec(POD, "cat", given=b"x").code == 0
    with person.started("exec", POD, "--", "sh", "-c", "echo in; sleep 36000") as process:
        assert process.stdout is not None
        assert process.stdout.read(3) == b"in\n"
    eventually_sync(lambda: pipes_of_the_server(person) <= before, within=20, what="its files are closed")
