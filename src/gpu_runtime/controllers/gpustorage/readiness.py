"""Whether a storage is Ready, and its status, from its observed claim and phases. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStoragePhase, GPUStorageStatus
from gpu_runtime.api.v1alpha1.reasons import (
    STORAGE_AWAITING_CONSUMER,
    STORAGE_CLAIM_LOST,
)
from gpu_runtime.controllers.child_kinds.volumes import PersistentVolumeClaim, StorageClassView
from gpu_runtime.controllers.gpustorage.phases import Accessible, Prepared
from gpu_runtime.controllers.gpustorage.provisioning import NOTHING_TOLD, Provisioning, waits_for_consumer, why_pending
from gpu_runtime.controllers.gpustorage.resize import size_readiness
from gpu_runtime.controllers.readiness import Readiness, State

PHASES: dict[State, GPUStoragePhase] = {
    "ready": "Ready",
    "progressing": "Pending",
    "failed": "Failed",
    "empty": "Pending",
}


@dataclass(frozen=True)
class Observed:
    """The storage with its own claim, the class of the claim, and what blocked the reconcile, if anything did."""

    storage: GPUStorage
    claim: PersistentVolumeClaim | None = None
    storage_class: StorageClassView | None = None
    provisioning: Provisioning = NOTHING_TOLD
    resize_refused: str = ""
    """Why the claim does not grow to the size of the spec, if it does not."""
    prepared: Prepared | None = None
    accessible: Accessible | None = None
    blocked: Readiness | None = None

    @property
    def usable_claim(self) -> PersistentVolumeClaim | None:
        """The claim, if a pod can mount it now."""
        if self.claim is None or self.claim.is_being_deleted:
            return None
        usable = self.claim.is_bound or waits_for_consumer(self.claim, self.storage_class)
        return self.claim if usable else None

    @property
    def mountable_claim(self) -> PersistentVolumeClaim | None:
        """The claim, if a unit may mount it now: it is usable, and filled."""
        return self.usable_claim if self.prepared is not None and self.prepared.is_done else None


Check = Callable[[Observed], Readiness | None]


def blocked(seen: Observed) -> Readiness | None:
    return seen.blocked


def claim_lost(seen: Observed) -> Readiness | None:
    if seen.claim is None or seen.claim.status.phase != "Lost":
        return None
    message = (
        f"PersistentVolumeClaim {seen.claim.metadata.name} lost its volume {seen.claim.spec.volumeName}: bring that "
        "PersistentVolume back, or delete the storage and create it again"
    )
    return Readiness("failed", STORAGE_CLAIM_LOST, message)


def claim_pending(seen: Observed) -> Readiness | None:
    if seen.claim is not None and seen.claim.is_bound:
        return None
    why = why_pending(seen.storage.spec.storageClassName, seen.claim, seen.storage_class, seen.provisioning)
    if why.reason == STORAGE_AWAITING_CONSUMER and prepare_unfinished(seen) is not None:
        return None  # the pod of the prepare is the first consumer: the prepare says what it waits for
    return why


def prepare_unfinished(seen: Observed) -> Readiness | None:
    if seen.prepared is None or seen.prepared.is_done:
        return None
    condition = seen.prepared.condition
    state: State = "failed" if seen.prepared.status.phase == "Failed" else "progressing"
    return Readiness(state, condition.reason, condition.message)


CHECKS: tuple[Check, ...] = (blocked, claim_lost, claim_pending, prepare_unfinished)


def readiness(seen: Observed) -> Readiness:
    """The outcome of the first check that has one; Ready if none has."""
    for check in CHECKS:
        if (outcome := check(seen)) is not None:
            return outcome
    assert seen.claim is not None  # claim_pending has an outcome for a storage without claim
    return size_readiness(seen.claim, seen.resize_refused)


def status(seen: Observed, outcome: Readiness) -> GPUStorageStatus:
    """The whole status except its conditions and time."""
    before, claim = seen.storage.status, seen.claim
    return structs.replace(
        before,
        phase=PHASES[outcome.state],
        # Kept when the claim is gone: a claim that was there once is never created again, because it would be empty.
        claimName=claim.metadata.name if claim is not None else before.claimName,
        capacity=str(claim.capacity) if claim is not None and claim.capacity else "",
        mountable=seen.mountable_claim is not None,
        prepare=seen.prepared.status if seen.prepared is not None else before.prepare,
        accessor=seen.accessible.status if seen.accessible is not None else before.accessor,
        attachedTo=attachment_of(seen.storage.metadata),
        observedGeneration=seen.storage.metadata.generation,
    )
