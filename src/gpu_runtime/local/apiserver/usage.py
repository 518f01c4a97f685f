"""Measurements of pods: the interface between the API server and the code that runs containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Usage:
    """`cpu` in billionths of a core, `memory` in bytes."""

    cpu: int
    memory: int

    def wire(self) -> dict[str, str]:
        return {"cpu": f"{self.cpu}n", "memory": f"{self.memory // 1024}Ki"}


@dataclass(frozen=True)
class Measured:
    """The machine and the containers of pods (by uid, then name) over the last `seconds`."""

    seconds: float
    machine: Usage
    pods: Mapping[str, Mapping[str, Usage]]


class UsageSource(Protocol):
    async def measure(self) -> Measured: ...
