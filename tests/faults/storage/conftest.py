"""Storages and units on the embedded server, with pods that run and volumes that are made."""

from __future__ import annotations

from equipment.fixtures import fault_proxy
from local.crash_points.conftest import api_server, installed, world

__all__ = ["api_server", "fault_proxy", "installed", "world"]
