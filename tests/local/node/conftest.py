"""A pod runtime on a data directory of its own, and proof that it leaves nothing behind on the machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpu_runtime.local.node.capabilities import Capabilities, decide, probe
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shim_documents import Limits
from local.node.machine import remains


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Outside /tmp, which pods do not see anyway: what hides this one is the mask."""
    path = Path(tempfile.mkdtemp(prefix="gpu-runtime-test-", dir="/var/tmp")) / "data"
    path.mkdir()
    yield path
    left = remains(path)
    assert left == {"processes": [], "mounts": [], "links": [], "cgroups": []}
    shutil.rmtree(path.parent)


@pytest.fixture(scope="session")
def capabilities() -> Capabilities:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        return decide(probe(Path(folder)))


@pytest.fixture
async def runtime(data_dir: Path, capabilities: Capabilities) -> AsyncIterator[PodRuntime]:
    limits = Limits(logBytes=64 * 1024, logFiles=3, openFiles=256, processes=64)
    async with PodRuntime(data_dir, capabilities, gpus=simulated(4), limits=limits) as runtime:
        yield runtime
        await runtime.shutdown()
