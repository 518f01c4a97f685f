"""Tests that need root. For an ordinary user they are left out, with a reason; CI runs as root and runs them all."""

from __future__ import annotations

import os

import pytest


def needs_root(why: str) -> pytest.MarkDecorator:
    """`why` says what an ordinary user's pods or processes lack; the summary of the run prints it."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=f"not root: {why}")
