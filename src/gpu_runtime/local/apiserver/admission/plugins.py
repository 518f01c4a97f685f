"""The plugins that our flows see, in the real server's order."""

from __future__ import annotations

from gpu_runtime.local.apiserver.admission import Plugin
from gpu_runtime.local.apiserver.kinds import Registry


def standard_plugins(registry: Registry) -> list[Plugin]:  # noqa: ARG001
    return []
