"""Both servers at once, with the CRDs that cases stand on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kube.differential.running import Pair
from kube.differential.scene import install
from kube.differential.servers import embedded_server, real_server

SELF = "GPU_RUNTIME_DIFFERENTIAL_SELF"
"""Set to compare the real server with itself: what differs then is a fault of the masking."""


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with ExitStack() as stack:
        left = stack.enter_context(real_server(folder / "real"))
        right = left if os.environ.get(SELF) else stack.enter_context(embedded_server(folder / "embedded"))
        yield Pair(left, right)


@pytest.fixture(scope="session")
def scene(pair: Pair) -> list[str]:
    """What could not be set up on one of the servers."""
    return asyncio.run(install(pair))
