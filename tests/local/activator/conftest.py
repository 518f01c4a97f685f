"""A real broker for the tests of the activator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from equipment.nats import NatsServer, running_nats


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path) as running:
        yield running
