"""Watches the server past every proxy, so that the judge also sees what others write."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from equipment.fault_proxy import Event
from equipment.judge.timeline import Document
from equipment.servers import ApiServer
from equipment.waiting import Changes


class Witness:
    """Sees every change of the named collections (`/apis/apps/v1/deployments`) from when it is entered."""

    def __init__(self, server: ApiServer, paths: Sequence[str]) -> None:
        self.before: list[Document] = []
        self.events: list[Event] = []
        self._server = server
        self._paths = paths
        self._changes = Changes()
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._session = _session(self._server)
        for path in self._paths:
            listed = await _list(self._session, path)
            self.before += items(listed)
            watch = self._watch(path, listed["metadata"]["resourceVersion"])
            self._watches.append(asyncio.create_task(watch))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.cancel()
        ends = await asyncio.gather(*self._watches, return_exceptions=True)
        await self._session.close()
        failures = [end for end in ends if isinstance(end, Exception)]
        if failures and error is None:
            raise failures[0]

    async def caught_up(self, resource_version: str, *, within: float = 60.0) -> None:
        """Waits until it has seen this version or a later one."""
        await self._changes.expect(
            lambda: any(_version(event["object"]) >= int(resource_version) for event in self.events),
            within=within,
            what=lambda: f"resourceVersion {resource_version} not seen by the witness of {self._paths}",
        )

    async def _watch(self, path: str, version: str) -> None:
        while True:
            query = {"watch": "1", "resourceVersion": version}
            async with self._session.get(path, params=query) as answer:
                answer.raise_for_status()
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for event in map(msgspec.json.decode, lines):
                        # A gap here would be a blind spot of the judge: better no verdict than a false one.
                        assert event["type"] != "ERROR", f"the witness lost track of {path}: {event['object']}"
                        self.events.append(event)
                        version = event["object"]["metadata"]["resourceVersion"]
                    self._changes.notify()


async def list_objects(server: ApiServer, *paths: str) -> list[Document]:
    """All objects of the named collections, each with its kind, as the judge wants them."""
    async with _session(server) as session:
        return [document for path in paths for document in items(await _list(session, path))]


def items(listed: Document) -> list[Document]:
    """The items of a list with kind and apiVersion, which the server leaves out of them."""
    kind = {"kind": listed["kind"].removesuffix("List"), "apiVersion": listed["apiVersion"]}
    return [{**kind, **item} for item in listed["items"]]


def _version(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


def _session(server: ApiServer) -> aiohttp.ClientSession:
    trust = ssl.create_default_context(cafile=server.ca_file)
    return aiohttp.ClientSession(
        server.url,
        connector=aiohttp.TCPConnector(ssl=trust),
        headers={"Authorization": f"Bearer {server.token}", "User-Agent": "judge"},
        timeout=aiohttp.ClientTimeout(total=None),
    )


async def _list(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(path) as answer:
        answer.raise_for_status()
        return await answer.json()
