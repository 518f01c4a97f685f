"""Sends the steps of a case to one server."""

from __future__ import annotations

import asyncio
import io
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from kube.differential.answer import Answer
from kube.differential.call import JSON, Call, Json, OpenWatch, ReadWatch, Step
from kube.differential.filling import fill
from kube.differential.masking import Names
from realkube.api import Access

DEADLINE = 60.0
WARNING = re.compile(r'299 - "(?:[^"\\]|\\.)*"')  # one header line may hold several


@dataclass
class Side:
    """One server's half of a case: its session, its namespace and what it answered so far."""

    http: aiohttp.ClientSession
    known: dict[str, Json]
    names: Names
    watches: dict[str, aiohttp.ClientResponse] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def take(self, step: Step) -> Answer:
        """Sends one step and remembers the answer where the step says so."""
        async with asyncio.timeout(DEADLINE):
            if isinstance(step, OpenWatch):
                return await self._open(step)
            if isinstance(step, ReadWatch):
                response = self.watches[step.name]
                return Answer(self.names, response.status, events=await _events(response, step.events))
            answer = await self._send(step)
            while step.until and answer.code != step.until:
                await asyncio.sleep(0.02)
                answer = await self._send(step)
        if step.keep and not answer.failed:
            self.known[step.keep] = answer.body if answer.events is None else answer.events
        return answer

    async def _send(self, call: Call) -> Answer:
        content, headers = self._body(call)
        body = None if content is None else io.BytesIO(content)  # aiohttp warns of large bytes
        path, query = fill(call.path, self.known), fill(dict(call.query), self.known)
        async with self.http.request(call.method, path, params=query, data=body, headers=headers) as response:
            answer = Answer(self.names, response.status, response.content_type)
            answer.warnings = WARNING.findall(", ".join(response.headers.getall("Warning", [])))
            if call.events and response.status == 200:
                answer.events = await _events(response, call.events)
                _hang_up(response)
            else:
                answer.body = _decoded(await response.read())
            return answer

    def _body(self, call: Call) -> tuple[bytes | None, dict[str, str]]:
        headers = {"Accept": JSON, **call.headers}
        if call.body is None:
            return None, headers
        headers.setdefault("Content-Type", JSON)
        if isinstance(call.body, bytes):
            return call.body, headers
        return json.dumps(fill(call.body, self.known)).encode(), headers

    async def _open(self, step: OpenWatch) -> Answer:
        query = {"watch": "true", **fill(dict(step.query), self.known)}
        response = await self.stack.enter_async_context(self.http.get(fill(step.path, self.known), params=query))
        self.stack.callback(_hang_up, response)
        self.watches[step.name] = response
        return Answer(self.names, response.status, response.content_type)


@asynccontextmanager
async def side(address: Access, namespace: str) -> AsyncIterator[Side]:
    """A session with one server that ends its open watches with it."""
    headers = {"Authorization": f"Bearer {address.token}"}
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(address.ca_file)))
    buffer = 1 << 22  # a line of a watch is a whole object
    async with aiohttp.ClientSession(address.url, headers=headers, connector=connector, read_bufsize=buffer) as http:
        opened = Side(http, {"ns": namespace}, Names(namespace))
        async with opened.stack:
            yield opened


async def _events(response: aiohttp.ClientResponse, count: int) -> list[Json]:
    events: list[Json] = []
    while len(events) < count and (line := await response.content.readline()):
        events.append(json.loads(line))
    return events


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Leaves an endless answer at once: an orderly end of TLS would outlive the test's event loop."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _decoded(body: bytes) -> Json:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
