"""What a person does in a container, told once for the embedded cluster and for a real one."""

from __future__ import annotations

import re
import secrets
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from equipment.waiting import eventually_sync
from local.shells.person import Person
from local.shells.world import IMAGE, container, pod

POD = "box"
MANY = 200
RAISED = "Internal error occurred: "
NOT_STARTED = (
    RAISED
    + RAISED
    + 'error executing command in container: failed to exec in container: failed to start exec "ID": OCI runtime exec'
    " failed: exec failed: unable to start container process: exec: "
)

Scenario = Callable[[Person], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(tell: Scenario) -> Scenario:
    SCENARIOS[tell.__name__] = tell
    return tell


@scenario
def output_errors_and_exit_code_of_a_command_arrive(person: Person) -> None:
    done = person.exec(POD, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.code, done.output) == (7, b"out\n")
    assert done.errors == "err\ncommand terminated with exit code 7\n"


@scenario
def a_command_killed_by_a_signal_has_its_exit_code(person: Person) -> None:
    done = person.exec(POD, "sh", "-c", "kill -9 $$")
    assert (done.code, done.errors) == (137, "command terminated with exit code 137\n")


@scenario
def words_of_a_command_reach_no_shell(person: Person) -> None:
    words = ["$(touch /tmp/x)", "a b", "`id`", "", "ü", "*", ";", "-n", "\n"]
    assert person.output_of(POD, "python3", "-c", "import sys; print(sys.argv[1:])", *words) == f"{words}\n"


@scenario
def a_command_may_be_long(person: Person) -> None:
    words = ["x" * 60_000, "y" * 60_000]
    assert (
        person.output_of(POD, "python3", "-c", "import sys; print(*map(len, sys.argv[1:]))", *words) == "60000 60000\n"
    )


@scenario
def bytes_go_in_and_come_back_unchanged(person: Person) -> None:
    content = secrets.token_bytes(3_000_000)
    done = person.exec(POD, "cat", given=content)
    assert (done.code, done.output == content) == (0, True), (done.code, len(done.output), done.errors)


@scenario
def a_command_sees_the_end_of_its_input(person: Person) -> None:
    assert person.exec(POD, "wc", "-c", given=b"12345").output.split() == [b"5"]
    assert person.exec(POD, "wc", "-c", given=b"").output.split() == [b"0"]


@scenario
def a_command_that_is_not_there_is_named(person: Person) -> None:
    for command, reason in (
        ("no-such", '"no-such": executable file not found in $PATH'),
        ("/no/such", '"/no/such": stat /no/such: no such file or directory'),
        ("/etc/passwd", '"/etc/passwd": permission denied'),
    ):
        done = person.exec(POD, command)
        said = re.sub(r'"[0-9a-f]{64}"', '"ID"', done.errors)
        assert (done.code, said) == (1, f"error: {NOT_STARTED}{reason}: unknown\n")


@scenario
def what_cannot_be_entered_is_refused_in_plain_words(person: Person) -> None:
    upgrade = f"error: {RAISED}unable to upgrade connection: "
    for words, said in (
        (("two", "-c", "ended"), f'{upgrade}container not found ("ended")\n'),
        (("two", "-c", "no-such"), "Error from server (BadRequest): container no-such is not valid for pod two\n"),
        (("waiting",), "Error from server (BadRequest): pod waiting does not have a host assigned\n"),
        (("no-such",), 'Error from server (NotFound): pods "no-such" not found\n'),
    ):
        done = person.run("exec", *words, "--", "true")
        assert (done.code, done.errors) == (1, said)
    path = f"/api/v1/namespaces/{person.namespace}/pods"
    for name, said in (
        (POD, "Upgrade request required"),
        ("two", "a container name must be specified for pod two, choose one of: [main ended]"),
    ):
        assert person.run("get", "--raw", f"{path}/{name}/exec?command=true").errors == (
            f"Error from server (BadRequest): {said}\n"
        )


@scenario
def a_command_has_the_place_the_user_and_the_limits_of_its_container(person: Person) -> None:
    about = "id -u; id -g; pwd; echo $GREETING; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status"
    seen = person.output_of("modest", "sh", "-c", about).splitlines()
    assert seen[:4] == ["1234", "2345", "/tmp", "hello"]
    assert "CapEff:\t0000000000000000" in seen
    assert "NoNewPrivs:\t1" in seen
    assert person.output_of("modest", "sh", "-c", "ls /proc/self/fd | wc -l").strip() == "4"  # ls' own is the fourth


@scenario
def what_a_command_leaves_in_the_background_goes_on(person: Person) -> None:
    mark = f"8{secrets.randbelow(10**6):06}"
    assert person.output_of(POD, "sh", "-c", f"sleep {mark} </dev/null >/dev/null 2>&1 & echo begun") == "begun\n"
    assert person.processes(POD, f"sleep {mark}")
    person.exec(POD, "sh", "-c", f"kill $(grep -lz -e '^{mark}$' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    person.no_process(POD, f"sleep {mark}")


@scenario
def output_that_nobody_reads_keeps_the_command_waiting(person: Person) -> None:
    mark = f"/tmp/written-{secrets.token_hex(4)}"
    script = f"import os\nn=0\nwhile True:\n n+=os.write(1, b'x'*65536)\n open('{mark}','w').write(str(n))"
    with person.started("exec", POD, "--", "python3", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        last = [-1, -2]

        def stands_still() -> bool:
            last.append(int(person.output_of(POD, "cat", mark) or "0"))
            return len(set(last[-4:])) == 1

        eventually_sync(stands_still, what="the command waits")
        assert last[-1] < 50_000_000
        assert person.output_of(POD, "echo", "hi") == "hi\n"  # and nobody else does


@scenario
def many_commands_run_at_once(person: Person) -> None:
    barrier = threading.Barrier(40)

    def one(number: int) -> bool:
        if number < barrier.parties:
            barrier.wait(60)
        done = person.exec(POD, "sh", "-c", f"echo {number}; exit {number % 100}")
        return (done.code, done.output.decode()) == (number % 100, f"{number}\n")

    with ThreadPoolExecutor(barrier.parties) as pool:
        assert all(pool.map(one, range(MANY)))


@scenario
def a_terminal_is_one_and_follows_the_size_of_the_own(person: Person) -> None:
    with person.terminal("exec", "-it", POD, "--", "sh", "-c", "tty; echo $TERM; exec sh -i") as terminal:
        terminal.expect(r"/dev/pts/\d+\r\nxterm\r\n")
        terminal.resize(101, 33)
        terminal.type("trap 'echo changed' WINCH; stty size; echo a''sked\n")
        terminal.expect(r"(?s)\d+ \d+\r\n.*?asked\r\n")  # the signal of the resize may arrive in between
        terminal.resize(77, 22)

        def size() -> bool:
            terminal.type("stty size; echo a''sked\n")
            seen = terminal.expect(r"(?s)\d+ \d+\r\n.*?asked\r\n")
            return seen.startswith("22 77")

        eventually_sync(size, what="the terminal has its new size")
        terminal.type("exit 9\n")
        assert terminal.wait() == 9


@scenario
def control_c_interrupts_the_command_and_control_d_ends_the_shell(person: Person) -> None:
    mark = f"7{secrets.randbelow(10**6):06}"
    with person.terminal("exec", "-it", POD, "--", "sh", "-i") as terminal:
        terminal.type(f"sleep {mark}\n")
        eventually_sync(lambda: person.processes(POD, f"sleep {mark}"), what="it sleeps")
        terminal.type("\x03")
        person.no_process(POD, f"sleep {mark}")
        terminal.type("echo st''ill here\n")
        terminal.expect("still here\r\n")
        terminal.type("(exit 3)\n\x04")
        assert terminal.wait() == 3


@scenario
def all_that_a_terminal_was_told_is_shown(person: Person) -> None:
    with person.terminal("exec", "-it", POD, "--", "seq", "30000") as terminal:
        assert terminal.wait() == 0
        assert terminal.said.decode() == "".join(f"{number}\r\n" for number in range(1, 30001))


@scenario
def a_tree_of_files_is_copied_in_and_out(person: Person) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree, back = Path(folder, "tree"), Path(folder, "back")
        (tree / "sub" / "empty").mkdir(parents=True)
        (tree / "sub" / "bytes").write_bytes(secrets.token_bytes(2_000_000))
        (tree / "a name with spaces").write_text("ü\n")
        (tree / "program").write_text("#!/bin/sh\necho ran\n")
        (tree / "program").chmod(0o755)
        there = f"/tmp/copy-{secrets.token_hex(4)}"
        for source, target in ((str(tree), f"{POD}:{there}"), (f"{POD}:{there}", str(back))):
            done = person.run("cp", source, target)
            assert done.code == 0, done
        assert person.output_of(POD, f"{there}/program") == "ran\n"
        assert contents(back) == contents(tree)
        person.run("cp", f"{POD}:/no/such", str(back / "more"))  # what it says then differs from call to call
        assert not (back / "more").exists()


def contents(folder: Path) -> dict[str, bytes | None]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


@scenario
def what_a_container_says_is_shown_while_attached_until_it_ends(person: Person) -> None:
    name = f"talker-{secrets.token_hex(3)}"
    script = "echo before; until [ -e /tmp/stop ]; do echo tick; sleep 0.2; done; echo oh >&2; echo bye; exit 3"
    made = person.server.request(
        "POST", f"/api/v1/namespaces/{person.namespace}/pods", pod(name, container(command=["sh", "-c", script]))
    )
    assert made.status == 201, made
    eventually_sync(lambda: b"tick" in person.run("logs", name).output, what="it talks")
    with person.started("attach", name) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"tick\n"
        assert person.exec(name, "touch", "/tmp/stop").code == 0
        assert process.stdout.read().replace(b"tick\n", b"") == b"bye\n"
        assert process.stderr.read().endswith(b"oh\n")
        assert process.wait(60) == 0
    done = person.run("attach", "two", "-c", "ended")
    where = f"two_{person.namespace}"
    assert done.errors.endswith(f"unable to upgrade connection: container ended not found in pod {where}\n")


@scenario
def a_person_may_do_everything_and_is_told_so(person: Person) -> None:
    for words in (("create", "pods"), ("delete", "nodes"), ("get", "/metrics"), ("*", "*")):
        done = person.run("auth", "can-i", *words)
        assert (done.code, done.output) == (0, b"yes\n"), done
    assert re.search(rb"^\*\.\* .*\[\*\]$", person.run("auth", "can-i", "--list").output, re.MULTILINE)
    assert b"system:masters" in person.run("auth", "whoami").output
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answers = [
        person.server.request("POST", path, {"spec": spec}) for spec in ({}, {"resourceAttributes": {"verb": "get"}})
    ]
    assert [(one.status, one.body["status"]) for one in answers] == [(422, "Failure"), (201, {"allowed": True})]
    text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    field = "spec.resourceAttributes"
    assert answers[0].body["message"] == f'.authorization.k8s.io "" is invalid: {field}: Invalid value: null: {text}'
    assert person.server.request("GET", path).status == 405


def a_run(*options: str) -> list[str]:
    """The words with which a person starts a pod and is in it."""
    words = ["run", f"run-{secrets.token_hex(3)}", "--rm", "--restart=Never", f"--image={IMAGE}"]
    return [*words, "--pod-running-timeout=2m", *options, "--command", "--"]


@scenario
def a_pod_is_started_with_a_terminal_and_typed_into(person: Person) -> None:
    words = a_run("-it")
    with person.terminal(*words, "sh") as terminal:
        terminal.resize(71, 23)
        terminal.type("\n")
        terminal.expect("[#$] ")

        def size() -> bool:
            terminal.type("stty size; tty; echo a''sked\n")
            return terminal.expect(r"(?s)\d+ \d+\r\n/dev/pts/\d+\r\n.*?asked\r\n").startswith("23 71")

        eventually_sync(size, what="the terminal has its size")
        terminal.type("sleep 36000\n")
        eventually_sync(lambda: person.processes(words[1], "sleep 36000"), what="it sleeps")
        terminal.type("\x03")
        person.no_process(words[1], "sleep 36000")
        terminal.type("echo st''ill here\n")
        terminal.expect("still here\r\n")
        terminal.type("exit 0\n")
        assert terminal.wait() == 0


@scenario
def what_is_piped_into_a_started_pod_arrives_and_ends(person: Person) -> None:
    content = "".join(f"{number}\n" for number in range(20_000)).encode()
    done = person.run(*a_run("-i"), "sh", "-c", "sort -n | tail -n 1; sleep 1", given=content)
    assert (done.code, done.output.splitlines()[0]) == (0, b"19999"), done
