"""What becomes of one container's process: exit codes, signals, messages, limits, logs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from equipment.privileges import needs_root
from equipment.waiting import eventually
from gpu_runtime.local.node.runtime import PodRuntime
from local.node.machine import processes
from local.node.pods import a_container, a_pod, log_text, run

FETCH = """
import time, urllib.request
for _ in range(600):
    try:
        print(urllib.request.urlopen('http://localhost:8080').status)
        break
    except OSError:
        time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("script", "code", "signal", "reason"),
    [
        ("exit 0", 0, 0, "Completed"),
        ("exit 7", 7, 0, "Error"),
        ("kill -9 $$", 137, 9, "Error"),
        ("kill -TERM $$", 143, 15, "Error"),
    ],
)
async def test_the_end_of_a_container_is_told_as_a_kubelet_tells_it(
    runtime: PodRuntime, script: str, code: int, signal: int, reason: str
) -> None:
    state, _ = await run(runtime, "sh", "-c", script)
    assert (state["exitCode"], state["signal"], state["reason"]) == (code, signal, reason)
    assert 0 < state["startedAt"] <= state["finishedAt"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program", 'exec: "no-such-program": executable file not found in $PATH'),
        ("/no/such/program", 'exec: "/no/such/program": stat /no/such/program: no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
        ("/etc", 'exec: "/etc": is a directory'),
    ],
)
async def test_a_command_that_cannot_be_executed_is_a_start_error_in_the_runtimes_words(
    runtime: PodRuntime, command: str, words: str
) -> None:
    uid = await a_pod(runtime)
    state = await runtime.start_container(uid, a_container(command))
    assert (state["status"], state["exitCode"], state["reason"]) == ("exited", 128, "StartError")
    assert words in state["message"]


async def test_a_termination_message_is_kept(runtime: PodRuntime) -> None:
    state, _ = await run(runtime, "sh", "-c", "echo out of paper > /dev/termination-log; exit 1")
    assert state["message"] == "out of paper\n"


async def test_output_is_logged_line_by_line_with_its_stream(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sh", "-c", "echo one; echo two >&2; printf three"))
    await runtime.wait_container(uid, "main", 0)
    lines = [line.split(" ", 3)[1:] for line in runtime.files(uid).log("main", 0).read_text().splitlines()]
    assert sorted(lines) == [["stderr", "F", "two"], ["stdout", "F", "one"], ["stdout", "P", "three"]]


async def test_a_container_that_fills_its_log_keeps_the_newest_part_only(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sh", "-c", "seq 1 60000"))
    await runtime.wait_container(uid, "main", 0)
    files = sorted(runtime.files(uid).log("main", 0).parent.iterdir())
    assert [file.name for file in files] == ["0.log", "0.log.1", "0.log.2"]
    assert sum(file.stat().st_size for file in files) < 3 * 64 * 1024 + 64 * 1024
    assert log_text(runtime, uid)[-1] == "60000"


@needs_root("a container cannot run as another user")
async def test_environment_working_directory_and_user_are_the_containers(runtime: PodRuntime) -> None:
    state, lines = await run(
        runtime, "sh", "-c", "echo $GREETING; pwd; id -u; id -g; echo hi > /dev/stdout",
        env={"GREETING": "hello"}, workingDir="/made/for/me", user=1234, group=2345,
    )  # fmt: skip
    assert state["exitCode"] == 0
    assert lines == ["hello", "/made/for/me", "1234", "2345", "hi"]


async def test_nothing_of_the_agents_environment_reaches_a_container(
    runtime: PodRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_SECRET", "hush")
    _, lines = await run(runtime, "env")
    assert sorted(line.split("=")[0] for line in lines) == [
        "CUDA_VISIBLE_DEVICES", "HOME", "HOSTNAME", "NVIDIA_VISIBLE_DEVICES", "PATH",
    ]  # fmt: skip


async def test_python_is_always_found(runtime: PodRuntime) -> None:
    state, lines = await run(runtime, "python", "-c", "print('found')")
    assert (state["exitCode"], lines) == (0, ["found"])


async def test_sigterm_reaches_the_program_and_its_exit_code_is_kept(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    await runtime.start_container(uid, a_container("sh", "-c", script))
    await eventually(lambda: log_text(runtime, uid) == ["ready"], what="the trap")
    state = await runtime.stop_container(uid, "main", 0, grace=60)
    assert (state["exitCode"], log_text(runtime, uid)) == (5, ["ready", "bye"])


async def test_a_shell_that_sleeps_ends_at_once_on_sigterm(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sh", "-c", "sleep 3600"))
    state = await asyncio.wait_for(runtime.stop_container(uid, "main", 0, grace=3600), 60)
    assert state["exitCode"] == 143


async def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sh", "-c", "trap '' TERM; echo ready; sleep 3600"))
    await eventually(lambda: log_text(runtime, uid) == ["ready"], what="the trap")
    began = time.monotonic()
    state = await asyncio.wait_for(runtime.stop_container(uid, "main", 0, grace=0.5), 60)
    assert (state["exitCode"], state["signal"], state["reason"]) == (137, 9, "Error")
    assert time.monotonic() - began >= 0.5


async def test_everything_a_container_started_ends_with_it(runtime: PodRuntime, data_dir: Path) -> None:
    state, _ = await run(
        runtime, "sh", "-c", "for i in 1 2 3; do setsid sleep 3600 & done; setsid sh -c 'sleep 3600 & sleep 3600' &",
        env={"DATA_DIR": str(data_dir)},
    )  # fmt: skip
    assert state["exitCode"] == 0
    assert [line.split()[1] for line in processes(data_dir)] == ["pod-shim"]


@needs_root("there are no cgroups to limit memory with")
async def test_a_container_that_needs_more_memory_than_its_limit_is_oom_killed(runtime: PodRuntime) -> None:
    assert "memory" in runtime.cgroups.limits
    state, _ = await run(runtime, "python", "-c", "b'x' * (256 << 20)", memoryBytes=64 << 20)
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")


async def test_a_container_that_forks_without_end_is_stopped_by_its_own_limit(runtime: PodRuntime) -> None:
    script = """
import os, signal
for number in range(1000):
    try:
        if os.fork() == 0:
            signal.pause()
    except BlockingIOError:
        print(number)
        break
"""
    _, lines = await run(runtime, "python", "-c", script)
    assert 0 < int(lines[-1]) < 64


async def test_a_container_cannot_open_more_files_than_its_limit(runtime: PodRuntime) -> None:
    _, lines = await run(runtime, "sh", "-c", "ulimit -n; ulimit -Hn")
    assert lines == ["256", "256"]


async def test_a_command_runs_inside_a_running_container(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sh", "-c", "echo here > /marker; sleep 3600", env={"A": "b"}))
    await runtime.execute(uid, "main", 0, ["sh", "-c", "until test -f /marker; do sleep 0.01; done"], 60)
    assert await runtime.execute(uid, "main", 0, ["sh", "-c", "cat /marker; echo $A; exit 3"], 60) == (3, "here\nb\n")
    code, output = await runtime.execute(uid, "main", 0, ["no-such-program"], 60)
    assert (code, "executable file not found" in output) == (126, True)
    assert (await runtime.execute(uid, "main", 0, ["sh", "-c", "sleep 3600 & wait"], 0.2))[0] is None


async def test_a_command_that_leaves_something_behind_still_ends(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sleep", "3600"))
    command = ["sh", "-c", "echo done; setsid sleep 3600 &"]
    assert await asyncio.wait_for(runtime.execute(uid, "main", 0, command, 60), 60) == (0, "done\n")


async def test_a_restart_has_fresh_files_and_its_own_log(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    script = "cat /leftover; echo run > /leftover; echo done"
    for attempt in range(3):
        await runtime.start_container(uid, a_container("sh", "-c", script, attempt=attempt))
        await runtime.wait_container(uid, "main", attempt)
    assert "done" in log_text(runtime, uid, attempt=2)
    assert "run" not in log_text(runtime, uid, attempt=2)
    sandbox = runtime.get(uid)
    assert sandbox
    assert [run.attempt for run in sandbox.runs] == [1, 2]
    assert not runtime.files(uid).log("main", 0).exists()


async def test_containers_of_a_pod_share_its_network_but_not_its_processes(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("python", "-m", "http.server", "8080", name="server"))
    await runtime.start_container(
        uid, a_container("sh", "-c", f'python -c "{FETCH}"; echo /proc/[0-9]*', name="client")
    )
    await runtime.wait_container(uid, "client", 0)
    assert log_text(runtime, uid, "client") == ["200", "/proc/1 /proc/2"]
