"""Tests that an ordinary user cannot run: left out and counted with their reason, never in CI, which is root."""

from __future__ import annotations

import os

import pytest


def needs_root(why: str) -> pytest.MarkDecorator:
    """`why` says what an ordinary user's pods or processes lack; the summary of the run prints it."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=f"not root: {why}")
