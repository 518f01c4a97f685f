"""A client past the proxies, for the hand of the test."""

from __future__ import annotations

from kube.runtime.conftest import client

__all__ = ["client"]
