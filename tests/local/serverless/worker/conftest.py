"""A broker, the queue of one function, and a framework, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from equipment.nats import NatsServer, running_nats
from equipment.workers import OddFramework, Queue, odd_framework


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path) as running:
        yield running


@pytest.fixture
async def queue(server: NatsServer) -> AsyncIterator[Queue]:
    async with server.connection() as broker:
        queue = Queue(broker)
        await queue.create_consumers()
        yield queue


@pytest.fixture
def framework(tmp_path: Path) -> Iterator[OddFramework]:
    with odd_framework(tmp_path) as running:
        yield running
