"""Logs as they are asked for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.local.apiserver.logs import LogQuery
from gpu_runtime.local.node.agent.logs import PodLogs
from gpu_runtime.local.node.records import PodFiles

POD: dict[str, Any] = {"metadata": {"uid": "u"}}
RUNNING = {
    "status": "running", "startedAt": 1.0, "finishedAt": 0.0, "exitCode": -1, "signal": 0, "reason": "", "message": "",
}  # fmt: skip


def write(data_dir: Path, attempt: int, text: str, status: str = "exited") -> None:
    files = PodFiles(data_dir / "pods" / "u")
    files.run("main", attempt).mkdir(parents=True, exist_ok=True)
    (files.run("main", attempt) / "spec.json").write_text("{}")
    (files.run("main", attempt) / "state.json").write_text(json.dumps({**RUNNING, "status": status}))
    files.log("main", attempt).parent.mkdir(parents=True, exist_ok=True)
    with files.log("main", attempt).open("a") as log:
        log.write(text)


async def read(data_dir: Path, **query: Any) -> bytes:
    logs = PodLogs(data_dir, poll_seconds=0.005)
    return b"".join([piece async for piece in logs.read(POD, LogQuery(container="main", **query))])


LOG = (
    "2026-01-01T00:00:01.5Z stdout F one\n"
    "2026-01-01T00:00:02.5Z stderr P tw\n"
    "2026-01-01T00:00:02.5Z stderr F o\n"
    "2026-01-01T00:00:03.5Z stdout P three\n"
)
CASES: dict[str, tuple[dict[str, Any], bytes]] = {
    "everything, whole lines put together": ({}, b"one\ntwo\nthree"),
    "with times": (
        {"timestamps": True, "tail_lines": 1},
        b"2026-01-01T00:00:03.5Z three",
    ),
    "the last entries": ({"tail_lines": 2}, b"o\nthree"),
    "none": ({"tail_lines": 0}, b""),
    "since a time": ({"since": "2026-01-01T00:00:02Z"}, b"two\nthree"),
    "so many bytes": ({"limit_bytes": 5}, b"one\nt"),
    "a follow of what has ended": ({"follow": True}, b"one\ntwo\nthree"),
}


@pytest.mark.parametrize(("query", "want"), CASES.values(), ids=CASES)
async def test_what_is_asked_for(tmp_path: Path, query: dict[str, Any], want: bytes) -> None:
    write(tmp_path, 0, LOG)
    assert await read(tmp_path, **query) == want


async def test_the_previous_run_has_its_own_log(tmp_path: Path) -> None:
    write(tmp_path, 3, "2026-01-01T00:00:01Z stdout F before\n")
    write(tmp_path, 4, "2026-01-01T00:00:01Z stdout F now\n")
    assert await read(tmp_path) == b"now\n"
    assert await read(tmp_path, previous=True) == b"before\n"


async def test_no_log_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await read(tmp_path)
    write(tmp_path, 0, LOG)
    with pytest.raises(FileNotFoundError):
        await read(tmp_path, previous=True)


async def test_a_follow_goes_on_over_a_rotation_until_the_container_ends(tmp_path: Path) -> None:
    write(tmp_path, 0, "2026-01-01T00:00:01Z stdout F one\n", "running")
    pieces = PodLogs(tmp_path, poll_seconds=0.005).read(POD, LogQuery(container="main", follow=True)).__aiter__()
    assert await anext(pieces) == b"one\n"
    path = PodFiles(tmp_path / "pods" / "u").log("main", 0)
    path.rename(path.with_name("0.log.1"))
    write(tmp_path, 0, "2026-01-01T00:00:01Z stdout F two\n", "running")
    async with asyncio.timeout(60):
        assert await anext(pieces) == b"two\n"
        write(tmp_path, 0, "", "exited")
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)
