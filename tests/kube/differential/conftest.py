"""Both servers at once, with the CRDs that cases stand on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kube.differential.running import Pair
from kube.differential.scene import install
from kube.differential.servers import embedded_server, real_server
from kube.differential.tolerated import Tolerance

SELF = "GPU_RUNTIME_DIFFERENTIAL_SELF"
"""Set to compare the real server with itself: what differs then is a fault of the masking."""


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with ExitStack() as stack:
        left = stack.enter_context(real_server(folder / "real"))
        right = left if os.environ.get(SELF) else stack.enter_context(embedded_server(folder / "embedded"))
        both = Pair(left, right)
        asyncio.run(install(both))
        yield both


@pytest.fixture(scope="session")
def tolerance() -> Tolerance:
    return Tolerance.load()


@pytest.fixture(scope="session")
def report() -> Iterator[list[str]]:
    """Lines about failures, written to the file that the environment names."""
    lines: list[str] = []
    yield lines
    if path := os.environ.get("GPU_RUNTIME_DIFFERENTIAL_REPORT"):
        Path(path).write_text("\n".join(lines) + "\n")
