"""The default namespaces of an installation; settings can name others."""

from __future__ import annotations

STOCK_NAMESPACE = "runtime-stock"  # a GPUUnit here is a reservation
INSTANCE_NAMESPACE = "runtime-instance"  # where users' units and storages live
SYSTEM_NAMESPACE = "gpu-runtime-system"  # our own processes, Leases and Operations
