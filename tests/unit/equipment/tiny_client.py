"""What tests send through the proxy."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

COLLECTION = "/api/v1/namespaces/ns/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def create(client: aiohttp.ClientSession, name: str) -> int:
    async with client.post(COLLECTION, json=config_map(name)) as answer:
        await answer.read()
        return answer.status


async def lost(request: Any) -> None:
    """Expects that the client's connection breaks instead of an answer."""
    with pytest.raises((aiohttp.ClientConnectionError, ConnectionResetError)):
        await request
