"""Invocations while processes are killed at random, and what must be true of each at the end."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from equipment.waiting import eventually
from faults.serverless.installation import FUNCTION, MAX_ATTEMPTS, Installation
from gpu_runtime.serverless.broker.connection import Broker

CLIENTS = 12
MOST_UNFINISHED = 300
"""Clients wait when so many have not ended: the queue is part of the test, and must be empty in time."""
KILL_SECONDS = (0.2, 3.0)
DOWN_SECONDS = (0.0, 2.0)
LAST_SECONDS = 240.0
"""After the last kill everything must have ended by then."""
ENDS = {"succeeded", "failed", "expired", "cancelled", "dead_lettered"}
# What of a terminal record may never change.
FINAL = ("state", "statusCode", "body", "attempts", "startedAt", "completedAt", "failureClass", "error", "workerName")


@dataclass
class Sent:
    """An invocation that a client was told is accepted."""

    payload: dict[str, Any]
    begun: float
    run: int = 1
    first: dict[str, Any] | None = None
    ended: float = 0.0


@dataclass
class Life:
    installation: Installation
    session: aiohttp.ClientSession
    rng: Random
    accepted: dict[str, Sent] = field(default_factory=dict)
    kills: list[tuple[float, str]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    async def play(self, seconds: float) -> None:
        """Clients, onlookers and kills for so long; then peace until everything has ended."""
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))
            for _ in range(2):
                group.create_task(self._look())
            group.create_task(self._kill())
            await asyncio.sleep(seconds)
            self.over.set()
        await eventually(self._all_ended, within=LAST_SECONDS, what="every accepted invocation has ended")

    async def _kill(self) -> None:
        """Kills one process after the other, and starts each again."""
        while not self.over.is_set():
            await asyncio.sleep(self.rng.uniform(*KILL_SECONDS))
            name = self.rng.choice(sorted(self.installation.victims))
            victim = self.installation.victims[name]
            self.kills.append((time.monotonic(), name))
            await asyncio.to_thread(victim.kill)
            await asyncio.sleep(self.rng.uniform(*DOWN_SECONDS))
            victim.start()

    # Clients.

    async def _client(self, number: int) -> None:
        rng = Random(f"{self.rng.random()} {number}")
        count = 0
        while not self.over.is_set():
            if sum(not each.ended for each in self.accepted.values()) > MOST_UNFINISHED:
                await asyncio.sleep(0.2)
                continue
            count += 1
            name = f"i-{number}-{count}"
            payload = {"seconds": rng.choice((0, 0, 0.01, 0.1, 1)), "failures": rng.choice((0, 0, 0, 0, 0, 0, 1))}
            await self._submit(rng, name, payload)
            if rng.random() < 0.05 and name in self.accepted:
                await self._call(rng, "POST", f"/serverless/invocations/{name}/cancel?function={FUNCTION}")

    async def _submit(self, rng: Random, name: str, payload: dict[str, Any]) -> None:
        """Sends the same request until it is answered with yes, as a client does that wants its work done."""
        body = {"serverlessRequestID": FUNCTION, "invocationID": name, "payload": payload}
        body["priority"] = rng.choice(("normal", "normal", "high"))
        begun = time.monotonic()
        while True:
            status, answer = await self._call(rng, "POST", "/serverless/invocations", body)
            if status in (200, 202):
                self.accepted[name] = Sent(payload, begun)
                return
            if status not in (0, 429, 503):
                self.problems.append(f"{name} was answered {status} {answer}")
                return
            if self.over.is_set() and status == 0:
                await asyncio.sleep(0.2)
            await asyncio.sleep(rng.uniform(0, 0.5))

    async def _call(self, rng: Random, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body from one of the replicas; status 0 when it is not there or dies meanwhile."""
        url = rng.choice(self.installation.apis) + path
        try:
            async with self.session.request(method, url, json=body) as response:
                status, answer = response.status, await response.json()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            status, answer = 0, None
        self.answers[f"{method} {status}"] += 1
        return status, answer

    # Onlookers.

    async def _look(self) -> None:
        """Reads records all the time. One that has ended must not change any more."""
        rng = Random(self.rng.random())
        while not self.over.is_set():
            if self.accepted:
                await self._read(rng, rng.choice(list(self.accepted)))
            await asyncio.sleep(0.02)

    async def _read(self, rng: Random, name: str) -> None:
        sent = self.accepted[name]
        status, answer = await self._call(rng, "GET", f"/serverless/invocations/{name}?function={FUNCTION}")
        if status == 404:
            self.problems.append(f"{name} was accepted and is not found")
        if status != 200 or answer["data"]["state"] not in ENDS:
            if sent.first is not None and status == 200:
                self.problems.append(f"{name} had ended with {sent.first} and is now {answer['data']}")
            return
        final = {key: answer["data"].get(key) for key in FINAL}
        if sent.first is None:
            sent.first, sent.ended = final, time.monotonic()
        elif sent.first != final:
            self.problems.append(f"{name} had ended with {sent.first} and is now {final}")

    async def _all_ended(self) -> bool:
        left = [name for name, sent in self.accepted.items() if not sent.ended]
        rng = Random(0)
        for start in range(0, len(left), 20):
            await asyncio.gather(*(self._read(rng, name) for name in left[start : start + 20]))
        still = [name for name in left if not self.accepted[name].ended]
        assert not still, f"{len(still)} have not ended, such as {still[:5]}"
        return True

    # The judgement.

    async def judge(self, broker: Broker) -> None:
        """Reads every record once more, and the broker."""
        rng = Random(1)
        names = list(self.accepted)
        for start in range(0, len(names), 20):
            await asyncio.gather(*(self._read(rng, name) for name in names[start : start + 20]))
        stored, ends = await subjects(broker, "INVOCATIONS"), await subjects(broker, "RESULTS")
        self.problems += [
            f"{subject} holds {count} messages" for subject, count in (stored | ends).items() if count != 1
        ]
        ended = {subject.split(".")[3] for subject in ends}
        self.problems += [f"{name} was accepted and has no end" for name in self.accepted if name not in ended]
        queued = {subject.split(".")[3] for subject in stored}
        self.problems += [f"{name} has an end and was never queued" for name in ended - queued]
        self._judge_executions(executions(self.installation.executions))
        assert not self.problems, "\n".join(self.problems[:50])

    def _judge_executions(self, counts: Counter[str]) -> None:
        for name, sent in self.accepted.items():
            crashes = sum(sent.begun <= at <= sent.ended for at, _ in self.kills)
            most = min(1 + sent.payload["failures"] + crashes, MAX_ATTEMPTS)
            if counts[name] > most:
                self.problems.append(f"{name} ran {counts[name]} times: {sent.payload}, {crashes} kills in its life")
            if sent.first is not None and sent.first["state"] == "succeeded" and not counts[name]:
                self.problems.append(f"{name} succeeded and never ran")

    def told(self) -> str:
        states = Counter(sent.first["state"] for sent in self.accepted.values() if sent.first is not None)
        killed = Counter(name for _, name in self.kills)
        ran = executions(self.installation.executions)
        more = sum(count - 1 for name, count in ran.items() if count > 1)
        return (
            f"{len(self.accepted)} accepted, {dict(states)}; {len(self.kills)} kills {dict(killed)}; "
            f"{ran.total()} executions, {more} of them repeated; answers {dict(sorted(self.answers.items()))}"
        )


def executions(log: Path) -> Counter[str]:
    """How often each id was run."""
    return Counter(line.split()[0] for line in log.read_text().splitlines() if line)


async def subjects(broker: Broker, stream: str) -> dict[str, int]:
    """All subjects of a stream, and how many messages each holds. The broker gives them in pages."""
    found: dict[str, int] = {}
    while True:
        body = json.dumps({"subjects_filter": ">", "offset": len(found)}).encode()
        answer = json.loads((await broker.request(f"$JS.API.STREAM.INFO.{stream}", body, seconds=30)).data)
        page: dict[str, int] = answer["state"].get("subjects") or {}
        found |= page
        if not page or len(found) >= answer.get("total", 0):
            return found
