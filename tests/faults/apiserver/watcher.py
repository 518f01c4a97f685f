"""A watch that is resumed from its last version after every break."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from faults.apiserver.churn import BROKEN, CONFIGMAPS, Event, serial_of

END = "the-end"


@dataclass
class Watcher:
    """Collects what it is sent until the object named END appears."""

    http: aiohttp.ClientSession
    up: asyncio.Event
    version: int
    bookmarks: bool
    seen: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    resumed: int = 0
    ended: bool = False

    async def run(self) -> None:
        while not self.ended:
            await self.up.wait()
            try:
                await self._follow()
            except BROKEN:
                await asyncio.sleep(0)
            self.resumed += 1

    async def _follow(self) -> None:
        query = {"watch": "true", "resourceVersion": str(self.version)}
        if self.bookmarks:
            query["allowWatchBookmarks"] = "true"
        async with self.http.get(CONFIGMAPS, params=query) as response:
            assert response.status == 200, await response.text()
            while not self.ended and (line := await response.content.readline()):
                if line.endswith(b"\n"):  # a line without its end is half an event: the server died in it
                    self._take(json.loads(line))
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()

    def _take(self, event: dict[str, Any]) -> None:
        kind, body = event["type"], event["object"]
        assert kind != "ERROR", f"the watch could not be resumed from {self.version}: {body}"
        version = int(body["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            assert version >= self.version, f"a bookmark goes back from {self.version} to {version}"
        else:
            assert version > self.version, f"after {self.version} came {version}: {event}"
            name = body["metadata"]["name"]
            self.ended = name == END
            if not self.ended:
                self.seen[name].append((kind, serial_of(body)))
        self.version = version
