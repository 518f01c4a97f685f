from __future__ import annotations

from equipment.fixtures import fault_proxy

__all__ = ["fault_proxy"]
