"""Why a claim has no volume yet: from its StorageClass, and from the Events of the claim while it waits."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.v1alpha1.reasons import (
    STORAGE_AWAITING_CONSUMER,
    STORAGE_PENDING,
    STORAGE_PROVISIONING_FAILED,
)
from gpu_runtime.controllers.child_kinds.volumes import (
    CLAIM_EVENTS,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    StorageClassView,
)
from gpu_runtime.controllers.readiness import Readiness
from gpu_runtime.controllers.ready_status import FIRST_SECONDS
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import Clock

OVERDUE_SECONDS = 60.0
LOOK_SECONDS = (5.0, 300.0)
"""Limits of the time until the events are read again, which is half of the claim's age."""


@dataclass(frozen=True)
class Provisioning:
    """What the events of a pending claim tell."""

    warning: str = ""
    overdue: bool = False
    """Whether the claim has waited for more than a minute."""
    requeue_after: float | None = None
    """Seconds until the events should be read again. None: no provisioner is at work, so there are no events."""


NOTHING_TOLD = Provisioning()


def waits_for_consumer(claim: PersistentVolumeClaim, storage_class: StorageClassView | None) -> bool:
    """Whether the volume is made for the first pod that mounts the claim, on that pod's node."""
    pending = claim.status.phase in ("", "Pending")
    return pending and storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER


def why_pending(
    name: str, claim: PersistentVolumeClaim | None, storage_class: StorageClassView | None, told: Provisioning
) -> Readiness:
    """The cause, in words. `name` is the name of the StorageClass, which may not exist."""
    if storage_class is None:
        message = f"StorageClass {name} does not exist: create it, or make the storage again with another class"
        return Readiness("progressing", STORAGE_PROVISIONING_FAILED, message)
    if claim is not None and waits_for_consumer(claim, storage_class) and not _awaits_provisioner(claim, storage_class):
        message = "its volume is made when the first pod mounts it, on the node of that pod"
        return Readiness("progressing", STORAGE_AWAITING_CONSUMER, message)
    if told.warning:
        message = f"StorageClass {name} makes no volume: {told.warning}"
        return Readiness("progressing", STORAGE_PROVISIONING_FAILED, message)
    if storage_class.provisioner == NO_PROVISIONER:
        message = f"StorageClass {name} makes no volumes: waiting for a PersistentVolume of that class that fits"
    elif told.overdue:
        message = (
            f"provisioner {storage_class.provisioner} of StorageClass {name} has made no volume and reported no error: "
            "check that it runs"
        )
    else:
        message = f"waiting until provisioner {storage_class.provisioner} of StorageClass {name} has made its volume"
    return Readiness("progressing", STORAGE_PENDING, message)


@dataclass(frozen=True)
class ProvisioningEvents:
    """Reads the events of claims that wait for a provisioner."""

    client: Client
    clock: Clock

    async def read(self, claim: PersistentVolumeClaim | None, storage_class: StorageClassView | None) -> Provisioning:
        """Lists the events of the claim, but only while a provisioner should be making its volume."""
        if claim is None or storage_class is None or not _awaits_provisioner(claim, storage_class):
            return NOTHING_TOLD
        created = claim.metadata.creationTimestamp
        age = (self.clock.now() - created).total_seconds() if created is not None else OVERDUE_SECONDS
        if -1.0 < age < FIRST_SECONDS:
            return Provisioning(requeue_after=FIRST_SECONDS - age)
        query = Query(CLAIM_EVENTS, claim.metadata.namespace, fields=f"involvedObject.uid={claim.metadata.uid}")
        warnings = [event for event in (await self.client.list(query)).items if event.type == "Warning"]
        last = max(warnings, key=lambda event: event.last_seen, default=None)
        shortest, longest = LOOK_SECONDS
        return Provisioning(
            warning=last.message if last is not None else "",
            overdue=abs(age) >= OVERDUE_SECONDS,
            requeue_after=min(max(abs(age) / 2, shortest), longest),
        )


def _awaits_provisioner(claim: PersistentVolumeClaim, storage_class: StorageClassView) -> bool:
    """Whether a provisioner should make the volume now."""
    if claim.status.phase not in ("", "Pending") or storage_class.provisioner == NO_PROVISIONER:
        return False
    return storage_class.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER or SELECTED_NODE in claim.metadata.annotations
