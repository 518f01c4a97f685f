"""What two phases of a storage's reconcile report: `prepare.py` fills the volume, `accessor.py` serves its files."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.gpustorage import AccessorStatus, PrepareStatus


@dataclass(frozen=True)
class Prepared:
    """The state of filling the volume: `status.prepare`, and the condition Prepared."""

    status: PrepareStatus
    condition: Condition
    requeue_after: float | None = None
    """Seconds until the phase must run again. None: a watched change triggers the next reconcile."""

    @property
    def is_done(self) -> bool:
        """Whether units may see the content of the volume."""
        return self.status.phase in ("NotRequested", "Succeeded")


@dataclass(frozen=True)
class Accessible:
    """Whether the files are served: `status.accessor`, and the condition AccessorReady."""

    status: AccessorStatus
    condition: Condition
    requeue_after: float | None = None
