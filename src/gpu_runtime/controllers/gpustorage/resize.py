"""Grows the claim of a storage to `spec.size`. It never shrinks. If it cannot grow, it stays mountable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.reasons import (
    READY,
    STORAGE_INVALID_SPEC,
    STORAGE_READY,
    STORAGE_RESIZE_FAILED,
    STORAGE_RESIZING,
)
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS, PersistentVolumeClaim, StorageClassView
from gpu_runtime.controllers.gpustorage.resources.claim import growth
from gpu_runtime.controllers.readiness import Readiness, invalid
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import Forbidden, Invalid
from gpu_runtime.kube.store import Delta

REFUSED_SECONDS = 300.0
"""Seconds until a growth that the server refused is tried again: somebody may have raised a quota."""
ERRORS = ("ControllerResizeError", "NodeResizeError")
"""Conditions of a claim whose growth failed. Kubernetes retries it."""
PROGRESS = ("Resizing", "FileSystemResizePending")


@dataclass(frozen=True)
class Resized:
    """The claim after a growth, or why it does not grow."""

    claim: PersistentVolumeClaim
    refused: str = ""
    requeue_after: float | None = None


@dataclass(frozen=True)
class _Refusal:
    """A growth that was refused. It is not tried again before `until`, unless the size or the class changes."""

    size: Quantity
    class_version: str
    until: float
    """Monotonic time of the next try; infinity if only a change of the class helps."""
    message: str


@dataclass(frozen=True)
class Resize:
    """Patches the size of bound claims. Remembers refusals, so that a refused request is not repeated at once."""

    client: Client
    caches: Caches
    clock: Clock
    _refusals: dict[str, _Refusal] = field(default_factory=dict)
    """By UID of the storage."""

    def __post_init__(self) -> None:
        self.caches.storages.store.subscribe(self._forget)

    async def grow(
        self, storage: GPUStorage, claim: PersistentVolumeClaim, size: Quantity, storage_class: StorageClassView | None
    ) -> Resized:
        """Patches the claim if `size` is larger than its size. Raises Blocked if it is smaller."""
        if size < claim.requested:
            raise invalid(
                f"spec.size: {size} is less than {claim.requested}, the size of the volume: a volume cannot shrink; "
                f"write {claim.requested} or more",
                STORAGE_INVALID_SPEC,
            )
        if size == claim.requested or not claim.is_bound:  # the server rejects changes of a claim that is not bound
            self._refusals.pop(storage.metadata.uid, None)
            return Resized(claim)
        if (refusal := self._refusal(storage, claim, size, storage_class)) is not None:
            seconds = refusal.until - self.clock.monotonic()
            return Resized(claim, refusal.message, seconds if seconds < math.inf else None)
        try:
            patch = {"metadata": identity(claim.metadata), "spec": growth(size)}
            grown = await self.client.patch(CLAIMS, claim.metadata.key, patch)
        except (Forbidden, Invalid) as error:
            refusal = self._remember(storage, size, storage_class, _message(claim, size, str(error)))
            return Resized(claim, refusal.message, REFUSED_SECONDS)
        return Resized(self.caches.claims.wrote(grown))

    def _refusal(
        self, storage: GPUStorage, claim: PersistentVolumeClaim, size: Quantity, storage_class: StorageClassView | None
    ) -> _Refusal | None:
        """The refusal that still holds; None if the server should be asked."""
        if storage_class is not None and not storage_class.allowVolumeExpansion:
            message = _message(claim, size, "its allowVolumeExpansion is not true")
            return self._remember(storage, size, storage_class, message, math.inf)
        known = self._refusals.get(storage.metadata.uid)
        if known is None:
            # After a restart, the refusal is taken from the status: a try at once would cost a write for each storage.
            ready = find_condition(storage.status.conditions, READY)
            if ready is None or ready.reason != STORAGE_RESIZE_FAILED:
                return None
            if ready.observedGeneration != storage.metadata.generation:
                return None
            return self._remember(storage, size, storage_class, ready.message)
        same = (known.size, known.class_version) == (size, _version(storage_class))
        return known if same and self.clock.monotonic() < known.until else None

    def _remember(
        self,
        storage: GPUStorage,
        size: Quantity,
        storage_class: StorageClassView | None,
        message: str,
        seconds: float = REFUSED_SECONDS,
    ) -> _Refusal:
        refusal = _Refusal(size, _version(storage_class), self.clock.monotonic() + seconds, message)
        self._refusals[storage.metadata.uid] = refusal
        return refusal

    def _forget(self, delta: Delta[GPUStorage]) -> None:
        if delta.old is not None and (delta.new is None or delta.new.metadata.uid != delta.old.metadata.uid):
            self._refusals.pop(delta.old.metadata.uid, None)


def size_readiness(claim: PersistentVolumeClaim, refused: str) -> Readiness:
    """The Ready condition of a storage whose volume can be used: as it is, growing, or unable to grow."""
    if refused:
        return Readiness("ready", STORAGE_RESIZE_FAILED, refused)
    if claim.capacity >= claim.requested:
        return Readiness("ready", STORAGE_READY, "its volume can be mounted")
    messages = {each.type: each.message for each in claim.status.conditions if each.status == "True"}
    message = f"its volume grows from {claim.capacity} to {claim.requested}"
    if failures := [messages[kind] for kind in ERRORS if messages.get(kind)]:
        return Readiness("ready", STORAGE_RESIZE_FAILED, "; ".join([message, *failures]))
    steps = [messages[kind] for kind in PROGRESS if messages.get(kind)]
    return Readiness("ready", STORAGE_RESIZING, "; ".join([message, *steps]))


def _message(claim: PersistentVolumeClaim, size: Quantity, why: str) -> str:
    name = claim.spec.storageClassName
    return (
        f"its volume stays at {claim.capacity} and does not grow to {size}: StorageClass {name}: {why}; "
        f"let the class expand volumes, or set spec.size back to {claim.requested}"
    )


def _version(storage_class: StorageClassView | None) -> str:
    return storage_class.metadata.resourceVersion if storage_class is not None else ""
