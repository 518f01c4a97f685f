"""Both servers of the differential suite, and every kubectl that there is."""

from __future__ import annotations

from kube.differential.fixtures import pair, scene

__all__ = ["pair", "scene"]
