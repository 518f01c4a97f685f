"""Priority classes: users' units come before stock, and stock before pods without a priority class."""

from __future__ import annotations

ACTIVE_PRIORITY_CLASS = "gpu-runtime-active"
ACTIVE_PRIORITY = 100_000
STOCK_PRIORITY_CLASS = "gpu-runtime-stock"
STOCK_PRIORITY = 1_000
