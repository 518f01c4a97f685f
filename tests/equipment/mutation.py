"""The one-line change of the source that must turn a test red, written beside the test; `make mutants` tries each."""

from __future__ import annotations

import pytest


def mutant(path: str, before: str, after: str) -> pytest.MarkDecorator:
    """`path` is relative to `src/gpu_runtime`; `before` occurs there exactly once."""
    return pytest.mark.mutant(path=path, before=before, after=after)
