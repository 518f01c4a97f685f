"""The resources that one pod reserves."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.controllers.child_kinds.pod_template import Resources

GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True)
class PodSize:
    """CPU, memory and GPUs of one pod. Requests equal limits, so resources are never overcommitted."""

    gpu: int = 0
    memory: Quantity | None = None
    cpu: Quantity | None = None

    @classmethod
    def parse(cls, *, gpu: int, memory: str | None, cpu: str | None = None) -> PodSize:
        """ValueError names the field whose text is not an amount. Specs written with kubectl may hold such text."""
        return cls(gpu, _amount("spec.memory", memory), _amount("spec.cpu", cpu))

    @property
    def resources(self) -> Resources:
        amounts = {"cpu": self.cpu, "memory": self.memory, GPU_RESOURCE: Quantity.of(self.gpu) if self.gpu else None}
        held = {name: str(amount) for name, amount in amounts.items() if amount is not None}
        return Resources(requests=held, limits=held)


def _amount(field: str, text: str | None) -> Quantity | None:
    if text is None:
        return None
    try:
        return Quantity.parse(text, negative=False)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
