"""Calls a framework process over its socket."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from equipment.waiting import eventually
from equipment.workers import FrameworkProcess


@dataclass(frozen=True)
class Said:
    status: int
    content_type: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


async def ask(socket: Path, method: str = "GET", path: str = "/healthz", body: bytes | None = None) -> Said:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session,
        session.request(method, f"http://framework{path}", data=body) as response,
    ):
        return Said(response.status, response.content_type, await response.read())


async def call(framework: FrameworkProcess, payload: Any, **more: Any) -> Said:
    await serving(framework)
    return await ask(framework.socket, "POST", "/invoke", json.dumps({"payload": payload, **more}).encode())


async def serving(framework: FrameworkProcess) -> None:
    def up() -> bool:
        assert not framework.has_ended, framework.output
        return framework.socket.exists()

    await eventually(up, what="the framework's socket")
