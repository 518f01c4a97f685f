"""What the differential tests share in a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from kube.differential.fixtures import pair, scene
from kube.differential.tolerated import Tolerance

__all__ = ["pair", "scene"]


@pytest.fixture(scope="session")
def tolerance() -> Tolerance:
    return Tolerance.load()


@pytest.fixture(scope="session")
def report() -> Iterator[TextIO]:
    """Where failures are listed: the file that the environment names."""
    with Path(os.environ.get("GPU_RUNTIME_DIFFERENTIAL_REPORT", os.devnull)).open("w", buffering=1) as file:
        yield file
