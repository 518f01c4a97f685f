"""A small disk that fills up: nothing that was answered is lost, nothing deleted is back."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from equipment.waiting import eventually
from local.apiserver.conftest import Api, Server, session_of

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 3
ROOM = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid():
        pytest.skip("only root may mount a disk")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "small", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


async def test_a_full_disk_refuses_writes_and_loses_nothing_before_or_after(small_disk: Path) -> None:
    server = Server(small_disk / "data")
    ballast = small_disk / "ballast"
    there: set[str] = set()
    gone: set[str] = set()
    try:
        for number in range(ROUNDS):
            server.start("--history-seconds", "0.5")
            read_on(server)
            async with session_of(server.kubeconfig) as session:
                api = Api(session)
                assert await names(api) == there
                ballast.write_bytes(bytes(free(small_disk) - ROOM))
                there |= await fill(api, number)
                deleted = await delete(api, sorted(there)[::2])
                there, gone = there - deleted, gone | deleted
                ballast.unlink()
                await eventually(partial(written, api, f"after-{number}"), what="room again")
                there.add(f"after-{number}")
                deleted = await delete(api, sorted(there)[::2])
                assert deleted
                there, gone = there - deleted, gone | deleted
                assert await names(api) == there
                assert not there & gone
            server.end(signal.SIGKILL)
    finally:
        if server.process is not None:
            server.end(signal.SIGKILL)


def free(disk: Path) -> int:
    about = os.statvfs(disk)
    return about.f_bavail * about.f_bsize


def read_on(server: Server) -> None:
    """Takes what the server says about each refused write: a full pipe would stop it."""
    assert server.process is not None
    assert server.process.stdout is not None
    output = os.dup(server.process.stdout.fileno())

    def read() -> None:
        while os.read(output, 1 << 16):
            pass
        os.close(output)

    threading.Thread(target=read, daemon=True).start()


async def names(api: Api) -> set[str]:
    items = (await api("GET", CONFIGMAPS)).body["items"]
    return {item["metadata"]["name"] for item in items}


async def fill(api: Api, number: int) -> set[str]:
    """Objects until the disk has no room for another."""
    made: set[str] = set()
    while True:
        name = f"big-{number}-{len(made)}"
        answer = await api("POST", CONFIGMAPS, {"metadata": {"name": name}, "data": {"a": "x" * 50_000}})
        if answer.code != 201:
            assert answer.code == 500
            assert "cannot be written" in answer.body["message"]
            return made
        made.add(name)


async def delete(api: Api, names: list[str]) -> set[str]:
    """Deletes the objects; returns the names of those that were deleted: a deletion needs disk space too."""
    return {name for name in names if (await api("DELETE", f"{CONFIGMAPS}/{name}")).code == 200}


async def written(api: Api, name: str) -> bool:
    return (await api("POST", CONFIGMAPS, {"metadata": {"name": name}})).code == 201
