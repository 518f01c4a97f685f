"""Which process a pod's shim was: its id may be somebody else's by now."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.local.node import pod as pods
from gpu_runtime.local.node.pod import Pod
from gpu_runtime.local.node.records import PodFiles, PodRecord
from gpu_runtime.local.node.shim import syscalls
from gpu_runtime.local.node.specs import PodSpec
from gpu_runtime.supervisor.identity import Identity


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "3600"]) as found:
        yield found
        found.kill()


def a_pod(folder: Path) -> Pod:
    record = PodRecord(spec=PodSpec(uid="a", namespace="default", name="a"), phase="ready")
    return Pod(PodFiles(folder), record, lambda: None)


def test_a_shim_writes_down_who_it_is() -> None:
    assert msgspec.convert(syscalls.identity(), Identity) == Identity.of(os.getpid())


@mutant("local/node/pod.py", "handle = shim.open() if shim else None", "handle = os.pidfd_open(shim.pid)")
async def test_a_process_that_got_a_dead_shims_id_is_left_alone(
    tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers of a dead shim that hang hold its lock; meanwhile the shim's id goes to another process."""
    monkeypatch.setattr(pods, "QUIT_DEADLINE", 0.0)
    pod = a_pod(tmp_path)
    identity = Identity.of(process.pid)
    assert identity
    earlier = msgspec.structs.replace(identity, started=str(int(identity.started) - 1))
    (tmp_path / "shim.json").write_bytes(msgspec.json.encode(earlier))
    hanging = pod.files.lock()
    assert hanging
    asked: list[int] = []
    kill = pod._kill_shim

    def count() -> None:
        kill()
        asked.append(1)

    monkeypatch.setattr(pod, "_kill_shim", count)
    quitting = asyncio.ensure_future(pod.quit())
    await eventually(lambda: len(asked) >= 3, what="the pod to be ended by force")
    assert process.poll() is None
    os.close(hanging)
    await asyncio.wait_for(quitting, 60)


async def test_a_shim_that_does_not_quit_is_killed(
    tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "QUIT_DEADLINE", 0.0)
    pod = a_pod(tmp_path)
    (tmp_path / "shim.json").write_bytes(msgspec.json.encode(Identity.of(process.pid)))
    lock = pod.files.lock()
    assert lock
    quitting = asyncio.ensure_future(pod.quit())
    await eventually(lambda: process.poll() is not None, what="its end")
    os.close(lock)
    await asyncio.wait_for(quitting, 60)
