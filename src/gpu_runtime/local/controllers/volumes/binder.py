"""Claims and volumes are bound to each other, released and let go; who makes the volumes is asked for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.controller import Result, Source, mapped, primary
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.controllers.finalizers import remove_finalizer
from gpu_runtime.local.controllers.scheduler.claims import SELECTED_NODE
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.controllers.volumes import matching
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.storage import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    ClaimStatus,
    PersistentVolume,
    StorageClass,
    VolumeStatus,
)

T = TypeVar("T", bound=Object)
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
ASKED = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


class Binder:
    """Two of the controllers of `manager`. Each step is one write that the next pass finds done."""

    def __init__(self, manager: Manager, recorder: Recorder) -> None:
        self._client = manager.client
        self._recorder = recorder
        self._claims = claims = manager.cache(Query(CLAIMS))
        self._volumes = volumes = manager.cache(Query(VOLUMES))
        self._classes = classes = manager.cache(Query(STORAGE_CLASSES))
        self._told: dict[Key, str] = {}

        def claims_of(pod: Pod) -> Iterable[Key]:
            return (Key(pod.metadata.namespace, name) for name in pod.claims)

        def claim_of(volume: PersistentVolume) -> Iterable[Key]:
            """A bound one concerns its claim; a free one all that still wait."""
            reference = volume.spec.claimRef
            return waiting(volume) if reference is None else (Key(reference.namespace, reference.name),)

        def waiting(_: Object) -> Iterable[Key]:
            return [one.metadata.key for one in claims if not one.spec.volumeName]

        def volume_of(claim: Claim) -> Iterable[Key]:
            return (Key("", claim.spec.volumeName),) if claim.spec.volumeName else ()

        sources: list[Source[Any]] = [primary(claims), mapped(volumes, claim_of), mapped(classes, waiting)]
        sources.append(mapped(manager.cache(Query(PODS)), claims_of))
        manager.controller("claim", self.reconcile_claim, sources)
        manager.controller("volume", self.reconcile_volume, [primary(volumes), mapped(claims, volume_of)])

    async def reconcile_claim(self, key: Key) -> Result:
        claim = self._claims.get(key)
        if claim is None:
            self._told.pop(key, None)
        elif claim.metadata.deletionTimestamp is not None:
            await self._let_go(claim)
        elif matching.BIND_COMPLETED in claim.metadata.annotations:
            await self._follow(claim)
        elif (volume := matching.find_volume(claim, self._volumes)) is not None:
            await self._bind(claim, volume)
        elif claim.spec.volumeName:
            await self._status(claim, ClaimStatus(phase="Pending"))
        else:
            await self._wait(claim, self._classes.get(Key("", claim.class_name)))
        return Result()

    async def _wait(self, claim: Claim, storage_class: StorageClass | None) -> None:
        """Says what the claim waits for, and asks the provisioner of its class when it is time."""
        await self._status(claim, ClaimStatus(phase="Pending"))
        if not claim.class_name:
            said = "no persistent volumes available for this claim and no storage class is set"
            self._say(claim, "FailedBinding", said)
        elif storage_class is None:
            said = f'storageclass.storage.k8s.io "{claim.class_name}" not found'
            self._say(claim, "ProvisioningFailed", said, warning=True)
        elif (
            storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
            and SELECTED_NODE not in claim.metadata.annotations
        ):
            self._say(claim, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        elif storage_class.provisioner.startswith("kubernetes.io/"):
            said = f"no volume plugin matched name: {storage_class.provisioner}"
            self._say(claim, "ProvisioningFailed", said, warning=True)
        else:
            notes = dict.fromkeys(matching.PROVISIONER_NOTES, storage_class.provisioner)
            if not notes.items() <= claim.metadata.annotations.items():
                patch = {"metadata": {**identity(claim.metadata), "annotations": notes}}
                claim = await self._client.patch(CLAIMS, claim.metadata.key, patch)
            self._say(claim, "ExternalProvisioning", ASKED.format(storage_class.provisioner))

    async def _bind(self, claim: Claim, volume: PersistentVolume) -> None:
        """The volume is kept for the claim first: two claims may want it, and only one write can win."""
        reference = volume.spec.claimRef
        if reference is None or reference.uid != claim.metadata.uid:
            notes = {matching.BOUND_BY_CONTROLLER: "yes"} if reference is None else {}
            metadata = {**identity(volume.metadata), "annotations": notes}
            patch = {"metadata": metadata, "spec": {"claimRef": matching.reference_to(claim)}}
            volume = await self._client.patch(VOLUMES, volume.metadata.key, patch)
        notes = {matching.BIND_COMPLETED: "yes"}
        if claim.spec.volumeName != volume.metadata.name:
            notes[matching.BOUND_BY_CONTROLLER] = "yes"
        metadata = {**identity(claim.metadata), "annotations": notes}
        patch = {"metadata": metadata, "spec": {"volumeName": volume.metadata.name}}
        claim = await self._client.patch(CLAIMS, claim.metadata.key, patch)
        await self._status(claim, _bound(volume))

    async def _follow(self, claim: Claim) -> None:
        """A bound claim shows its volume as it was bound; who grows the volume says so in the claim."""
        key = Key("", claim.spec.volumeName)
        volume = self._volumes.get(key) or await self._live(VOLUMES, key)
        if volume is not None and volume.spec.claimRef is None:
            await self._bind(claim, volume)  # somebody took the reference away
        elif volume is None or not matching.belongs_to(volume, claim):
            if claim.status.phase != "Lost":
                said = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._say(claim, "ClaimLost", said, warning=True)
            await self._status(claim, ClaimStatus(phase="Lost"))
        elif claim.status.phase != "Bound":
            await self._status(claim, _bound(volume))
        elif claim.wants_more(claim.status.capacity):
            self._say(claim, "ExternalExpanding", "waiting for an external controller to expand this PVC")

    async def _live(self, resource: Resource[T], key: Key) -> T | None:
        try:
            return await self._client.get(resource, key)
        except NotFound:
            return None

    async def _let_go(self, claim: Claim) -> None:
        if CLAIM_PROTECTION not in claim.metadata.finalizers:
            return
        # A live read: a pod that the cache does not show yet must not lose its volume.
        pods = await self._client.list(Query(PODS, namespace=claim.metadata.namespace))
        if not any(claim.metadata.name in pod.claims and not pod.finished for pod in pods.items):
            await remove_finalizer(self._client, CLAIMS, claim.metadata, CLAIM_PROTECTION)

    async def reconcile_volume(self, key: Key) -> Result:
        """Releases a volume only when a live read shows that its claim is gone."""
        volume = self._volumes.get(key)
        if volume is None:
            return Result()
        claim = await self._claim_of(volume)
        phase = "Bound" if claim is not None else "Released"
        if volume.spec.claimRef is None or (not volume.spec.claimRef.uid and claim is None):
            phase = "Available"
        written = await write_status(self._client, VOLUMES, volume, volume.status, VolumeStatus(phase=phase))
        if volume.metadata.deletionTimestamp is not None and claim is None and not written:
            await remove_finalizer(self._client, VOLUMES, volume.metadata, VOLUME_PROTECTION)
        return Result()

    async def _claim_of(self, volume: PersistentVolume) -> Claim | None:
        reference = volume.spec.claimRef
        if reference is None:
            return None
        key = Key(reference.namespace, reference.name)
        claim = self._claims.get(key)
        if claim is None or not matching.belongs_to(volume, claim):
            claim = await self._live(CLAIMS, key)
        return claim if claim is not None and matching.belongs_to(volume, claim) else None

    async def _status(self, claim: Claim, status: ClaimStatus) -> None:
        after = replace(status, conditions=claim.status.conditions)
        await write_status(self._client, CLAIMS, claim, claim.status, after)

    def _say(self, claim: Claim, reason: str, message: str, *, warning: bool = False) -> None:
        if self._told.get(claim.metadata.key) != message:
            self._told[claim.metadata.key] = message
            self._recorder.event(CLAIMS, claim, reason, message, type="Warning" if warning else "Normal")


def _bound(volume: PersistentVolume) -> ClaimStatus:
    return ClaimStatus(phase="Bound", accessModes=volume.spec.accessModes, capacity=volume.spec.capacity)
