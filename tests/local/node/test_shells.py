"""Commands in a running container, at the pods' shims: with namespaces, and as plain processes without any."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from equipment.waiting import eventually
from gpu_runtime.local.apiserver.shells import CannotConnect, CannotStart, NotRunning, ShellRequest
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shells import Command, PodShells
from local.node.pods import a_container, a_pod

PLAIN = Capabilities(namespaces=0, root="machine", scratch="disk", network="machine", notes=[])
LONGEST_SECONDS = 60


@pytest.fixture(params=["isolated", "plain"])
async def runtime(
    request: pytest.FixtureRequest, data_dir: Path, capabilities: Capabilities
) -> AsyncIterator[PodRuntime]:
    able = PLAIN if request.param == "plain" else capabilities
    async with PodRuntime(data_dir, able) as runtime:
        yield runtime
        await runtime.shutdown()


@pytest.fixture
async def pod(runtime: PodRuntime) -> dict[str, Any]:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sleep", "36000", env={"GREETING": "hello"}))
    return {"metadata": {"uid": uid}}


@pytest.fixture
def shells(runtime: PodRuntime) -> PodShells:
    return PodShells(runtime.data_dir)


def asked(*command: str, **more: bool) -> ShellRequest:
    return ShellRequest("main", command, **{"stdout": True, "stderr": True, **more})


async def said(command: Command, name: str = "stdout") -> bytes:
    found = b""
    while piece := await asyncio.wait_for(command.outputs[name].read(), LONGEST_SECONDS):
        found += piece
    return found


def marked(mark: str) -> list[int]:
    """The processes of the machine that have the mark in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def stat_of(pid: int) -> tuple[str, str, int]:
    """A process's name, state and parent."""
    name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    return name, rest.split()[0], int(rest.split()[1])


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def a_family(shells: PodShells, pod: dict[str, Any], *, tty: bool = False) -> tuple[Command, str]:
    """A command with children that have left its session, and the mark that they all carry."""
    mark = f"36{secrets.randbelow(10**8):08}"
    script = f"setsid sh -c 'setsid sleep {mark} & sleep {mark}' & echo begun; sleep {mark}"
    command = await shells.execute(pod, asked("sh", "-c", script, tty=tty))
    assert (await command.outputs["stdout"].read()).startswith(b"begun")
    assert marked(mark)
    return command, mark


async def test_a_command_runs_in_its_container(shells: PodShells, pod: dict[str, Any]) -> None:
    command = await shells.execute(pod, asked("sh", "-c", "read x; echo $GREETING $x; echo no >&2; exit 3", stdin=True))
    await command.write(b"there\n")
    assert [await said(command), await said(command, "stderr"), await command.ended()] == [b"hello there\n", b"no\n", 3]
    command.close()


async def test_a_terminal_has_the_size_that_it_was_told(shells: PodShells, pod: dict[str, Any]) -> None:
    command = await shells.execute(pod, asked("sh", "-c", "read x; stty size; tty", tty=True, stdin=True))
    command.resize(91, 17)
    await command.write(b"\n")
    shown = (await said(command)).decode()
    assert "17 91\r\n/dev/pts/" in shown
    assert await command.ended() == 0
    command.close()


async def test_a_command_that_is_let_go_ends_with_all_that_it_started(shells: PodShells, pod: dict[str, Any]) -> None:
    families = [await a_family(shells, pod, tty=tty) for tty in (False, True)]
    for command, _ in families:
        command.close()
    await eventually(lambda: not any(marked(mark) for _, mark in families), what="all of them have ended")


def holds_terminal(pid: int) -> bool:
    """Whether the process has the client's end of a terminal open."""
    return any(str(each.readlink()).endswith("ptmx") for each in Path(f"/proc/{pid}/fd").iterdir())


async def test_all_of_a_command_ends_when_its_terminal_hangs_up_first(shells: PodShells, pod: dict[str, Any]) -> None:
    command, mark = await a_family(shells, pod, tty=True)
    [keeper] = {parent for pid in marked(mark) if stat_of(parent := stat_of(pid)[2])[0] == "pod-exec"}
    await eventually(lambda: not holds_terminal(keeper), what="the client's end of the terminal is the client's alone")
    os.kill(keeper, signal.SIGSTOP)
    try:
        command.close()
        await eventually(
            lambda: "Z" in [stat_of(child)[1] for child in children_of(keeper)],
            what="the terminal has ended the command",
        )
    finally:
        os.kill(keeper, signal.SIGCONT)
    await eventually(lambda: not marked(mark), what="what it had started has ended too")


async def test_a_command_ends_with_its_container(runtime: PodRuntime, shells: PodShells, pod: dict[str, Any]) -> None:
    command, mark = await a_family(shells, pod)
    await runtime.stop_container(pod["metadata"]["uid"], "main", 0, grace=0)
    assert await asyncio.wait_for(command.ended(), LONGEST_SECONDS) == 128 + signal.SIGKILL
    command.close()
    await eventually(lambda: not marked(mark), what="all of it has ended")
    with pytest.raises(NotRunning):
        await shells.execute(pod, asked("true"))


async def test_a_command_ends_with_its_shim(runtime: PodRuntime, shells: PodShells, pod: dict[str, Any]) -> None:
    command, mark = await a_family(shells, pod)
    shim = runtime.files(pod["metadata"]["uid"]).shim()
    assert shim is not None
    os.kill(shim.pid, signal.SIGKILL)
    assert await asyncio.wait_for(command.ended(), LONGEST_SECONDS) == 128 + signal.SIGKILL
    command.close()
    await eventually(lambda: not marked(mark), what="all of it has ended")


async def test_a_command_inherits_nothing_but_its_streams(shells: PodShells, pod: dict[str, Any]) -> None:
    for tty in (False, True):
        command = await shells.execute(pod, asked("sh", "-c", "ls /proc/$$/fd", tty=tty))
        assert (await said(command)).split()[:3] == [b"0", b"1", b"2"]
        command.close()


async def test_a_command_ignores_no_signal_if_the_agent_was_started_with_nohup(
    data_dir: Path, capabilities: Capabilities
) -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        async with PodRuntime(data_dir, capabilities) as runtime:
            uid = await a_pod(runtime)
            await runtime.start_container(uid, a_container("sleep", "36000"))
            command = await PodShells(data_dir).execute(
                {"metadata": {"uid": uid}}, asked("grep", "SigIgn", "/proc/self/status")
            )
            mask = int((await said(command)).split()[1], 16)
            command.close()
            await runtime.shutdown()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # Not 32 and 33: the C library keeps them to itself, and who started the tests may have ignored them.
    assert not [number for number in signal.valid_signals() if mask & 1 << number - 1]


async def test_what_cannot_start_says_why(shells: PodShells, pod: dict[str, Any]) -> None:
    with pytest.raises(CannotStart, match=r'unable to start container process: exec: "no-such": executable file not'):
        await shells.execute(pod, asked("no-such"))
    with pytest.raises(NotRunning):
        await shells.execute(pod, ShellRequest("other", ("true",)))
    with pytest.raises(NotRunning):
        await shells.execute({"metadata": {"uid": "no-such"}}, asked("true"))
    with pytest.raises(CannotStart, match="Message too long"):
        await shells.execute(pod, asked("echo", "x" * 1_000_000))


async def test_no_file_stays_open_after_commands_of_all_kinds(shells: PodShells, pod: dict[str, Any]) -> None:
    async def each() -> None:
        for request in (asked("true", stdin=True), asked("true", tty=True), asked("no-such"), asked("sleep", "36000")):
            try:
                command = await shells.execute(pod, request)
            except CannotStart:
                continue
            if request.command == ("true",):
                assert await command.ended() == 0
            command.close()

    await each()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    await each()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_a_closed_port_is_told_as_the_kernel_tells_it(shells: PodShells, pod: dict[str, Any]) -> None:
    for port, reason in ((9, "connection refused"), (70_000, "port must be 0-65535")):
        with pytest.raises(CannotConnect, match=reason):
            await shells.connect(pod, port)
