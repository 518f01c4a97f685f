"""What the phases of a storage's reconcile report, and what stands in for those that a storage does not use.

`Prepare` fills the volume, `Accessor` serves its files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.gpustorage import AccessorStatus, GPUStorage, PrepareStatus
from gpu_runtime.controllers.child_kinds.volumes import PersistentVolumeClaim


@dataclass(frozen=True)
class Prepared:
    """How far filling the volume is: part of the status, and the condition Prepared."""

    status: PrepareStatus
    condition: Condition
    again: float | None = None
    """Seconds after which the phase wants to look again. None: a watched change brings the storage back."""

    @property
    def is_done(self) -> bool:
        """Whether units may see the content of the volume."""
        return self.status.phase in ("NotRequested", "Succeeded")


@dataclass(frozen=True)
class Accessible:
    """Whether the files are served: part of the status, and the condition AccessorReady."""

    status: AccessorStatus
    condition: Condition
    again: float | None = None


class Prepare(Protocol):
    """Fills the volume before its first use."""

    async def run(self, storage: GPUStorage, claim: PersistentVolumeClaim | None) -> Prepared:
        """`claim` is the claim that a pod can mount now; None while there is none."""

    async def end(self, storage: GPUStorage) -> bool:
        """Deletes what the phase made; True once live reads show nothing of it. The storage is being deleted."""


class Accessor(Protocol):
    """Serves the files of the volume."""

    async def run(self, storage: GPUStorage, claim: PersistentVolumeClaim | None) -> Accessible:
        """`claim` is the claim whose files can be served now: it can be mounted and is filled. Otherwise None."""

    async def end(self, storage: GPUStorage) -> bool:
        """As `Prepare.end`."""
