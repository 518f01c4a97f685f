"""Fixtures of the fault proxy, for a conftest to import."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.servers import ApiServer

__all__ = ["fault_proxy"]


@pytest.fixture
async def fault_proxy(api_server: ApiServer, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    """A fault proxy before the API server; a failed test shows its trace and where the whole history lies."""
    async with FaultProxy(api_server, keep_reads=True) as proxy:
        yield proxy
    history = tmp_path / "history.jsonl"
    proxy.history.write_lines(history)
    # pytest shows what a teardown wrote only when the test has failed.
    sys.stderr.write(f"{proxy.report()}-- whole history: {history}\n")
