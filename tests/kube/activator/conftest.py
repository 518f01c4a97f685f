"""The activator on a real API server and a real broker. Nothing runs in the units: the test plays their controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from equipment.nats import NatsServer, running_nats
from kube.http.conftest import installed, ready_node, world

__all__ = ["installed", "ready_node", "world"]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path) as running:
        yield running
