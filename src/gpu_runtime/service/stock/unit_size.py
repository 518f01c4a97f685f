"""The size of a unit: the resources that its stock holds."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple, Protocol

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.group import GROUP

# Label of stock: a digest of its size, for label selectors.
UNIT_SIZE = f"{GROUP}/envelope"


class Sized(Protocol):
    @property
    def cpu(self) -> str | None: ...

    @property
    def memory(self) -> str | None: ...

    @property
    def gpu(self) -> int: ...


class UnitSize(NamedTuple):
    """CPU, memory and GPUs, compared by value: 1Gi equals 1024Mi."""

    cpu: str
    memory: str
    gpu: int

    @classmethod
    def of(cls, sized: Sized) -> UnitSize:
        return cls(_value(sized.cpu), _value(sized.memory), sized.gpu)

    @property
    def digest(self) -> str:
        return sha256(repr(tuple(self)).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        parts = [
            f"cpu {self.cpu}" if self.cpu else "",
            f"memory {self.memory}" if self.memory else "",
            f"gpu {self.gpu}",
        ]
        return ", ".join(part for part in parts if part)


def _value(text: str | None) -> str:
    if not text:
        return ""
    try:
        return str(Quantity.parse(text))
    except ValueError:
        return text  # not a valid quantity, written by hand: equal only to itself
