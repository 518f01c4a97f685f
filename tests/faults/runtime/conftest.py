"""A client that does not go through the fault proxies, for the test's own writes."""

from __future__ import annotations

from kube.runtime.conftest import client

__all__ = ["client"]
