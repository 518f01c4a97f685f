"""Open watches in a process of their own: `python -m benchmarks._watchers URL COUNT`.

Says `open` when every watch has its list. For each version that it is then told on standard input it waits until all
watches have come so far, and says as JSON which versions each of them was told.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
import uvloop

OPENING = asyncio.Semaphore(20)  # each begins with a list
PATIENCE = 60.0  # seconds for the slowest watch to catch up


@dataclass
class Watch:
    """What one watch was told after its list."""

    begin: int = 0
    newest: int = 0
    versions: list[int] = field(default_factory=list)
    resets: int = 0

    def take(self, event: bytes) -> None:
        fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        version = int(fields.get(b"id", b"0"))
        self.newest = max(self.newest, version)
        if fields.get(b"event") == b"bookmark":
            self.begin = self.begin or version
        elif fields.get(b"event") == b"reset":
            self.resets += 1
        elif self.begin:
            self.versions.append(version)


async def follow(session: aiohttp.ClientSession, url: str, watch: Watch, changed: asyncio.Event) -> None:
    async with OPENING:
        response = await session.get(url, params={"watch": "true", "timeoutSeconds": "3600"})
    async with response:
        response.raise_for_status()
        rest = b""
        async for chunk in response.content.iter_any():
            *whole, rest = (rest + chunk).split(b"\n\n")
            for event in whole:
                watch.take(event)
            changed.set()


async def until(done: Callable[[], bool], changed: asyncio.Event) -> None:
    while not done():
        changed.clear()
        await changed.wait()


async def main(url: str, count: int) -> None:
    connector, patience = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    watches, changed = [Watch() for _ in range(count)], asyncio.Event()
    async with aiohttp.ClientSession(connector=connector, timeout=patience) as session, asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(session, url, watch, changed)) for watch in watches]
        await until(lambda: all(watch.begin for watch in watches), changed)
        print("open", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            version = int(line)
            with suppress(TimeoutError):  # what is missing then shows in the report
                async with asyncio.timeout(PATIENCE):
                    await until(lambda version=version: all(watch.newest >= version for watch in watches), changed)  # type: ignore[misc]
            told = [{"begin": each.begin, "versions": each.versions, "resets": each.resets} for each in watches]
            print(json.dumps(told), flush=True)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
