"""Priority classes: a user's unit comes before stock, and stock before what nobody waits for."""

from __future__ import annotations

ACTIVE_PRIORITY_CLASS = "gpu-runtime-active"
ACTIVE_PRIORITY = 100_000
STOCK_PRIORITY_CLASS = "gpu-runtime-stock"
STOCK_PRIORITY = 1_000
