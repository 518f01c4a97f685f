"""The rules of the built-in kinds."""

from __future__ import annotations

from collections import defaultdict

from gpu_runtime.local.apiserver.strategy import Strategy

STRATEGIES: dict[tuple[str, str], Strategy] = defaultdict(Strategy)
