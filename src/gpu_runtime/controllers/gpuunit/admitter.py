"""Admits units: finishes a hand-over that its executor left, then waits until the stock is gone.

An executor creates the unit inert, commits its Operation, admits the unit with the stock of the committed record and
deletes that stock. Any step may be its last. Nothing here relies on time or on who leads: every write names the version
that it was decided on.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import OPERATION, UNIT
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.provenance import Source, is_inert, provenance, source_of
from gpu_runtime.api.v1alpha1.reasons import AWAITING_STOCK, POD_STATUS_SYNC_FAILED
from gpu_runtime.controllers.caches import BY_UID, Caches
from gpu_runtime.controllers.child_kinds.workloads import PODS, PodView
from gpu_runtime.controllers.gpuunit.admission import Admit, Refuse, Remove, Wait, admission
from gpu_runtime.controllers.gpuunit.teardown import is_ending
from gpu_runtime.controllers.labels import controlled_by
from gpu_runtime.controllers.product_kinds import GPU_UNITS, OPERATIONS
from gpu_runtime.controllers.readiness import invalid, reported_as, waiting
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import NotFound

EXECUTOR_SECONDS = 2.0
"""An executor admits its unit within milliseconds. The record of a younger unit is not read yet."""

RELEASE_SECONDS = 5.0
"""How often a waiting unit is reconciled. Usually a change of the stock or its pods triggers it, but a pod that lost
the label of our watch changes unseen."""


class Settled(Exception):
    """The unit was admitted or removed. The reconcile ends; the change triggers the next one."""


@dataclass(frozen=True)
class Admitter:
    """Reads the Operation live for each decision: a cached record may say Pending long after the commit."""

    client: Client
    caches: Caches
    clock: Clock

    async def admit(self, unit: GPUUnit) -> None:
        """Returns if the unit is live. An inert one is admitted, removed or waited for, by its record."""
        if not is_inert(unit):
            return
        name = unit.metadata.labels.get(OPERATION)
        if not name:
            raise invalid(f"an operation made this unit, but no label {OPERATION} names it: nothing is built")
        if self._age(unit) < EXECUTOR_SECONDS:
            raise waiting(AWAITING_STOCK, f"operation {name} is handing over its stock", EXECUTOR_SECONDS)
        match decision := admission(unit, await self._operations(name)):
            case Admit():
                notes = provenance(decision.choice)
                patch = {"metadata": {**identity(unit.metadata), "annotations": notes}}
                await self.client.patch(GPU_UNITS, unit.metadata.key, patch)
            case Remove():
                await self._remove(unit)
            case Refuse():
                raise invalid(decision.why)
            case Wait():
                raise waiting(AWAITING_STOCK, decision.why, EXECUTOR_SECONDS)
        structlog.get_logger("handover").info(
            "finished for an executor", unit=str(unit.metadata.key), decision=type(decision).__name__.lower()
        )
        raise Settled

    async def release(self, unit: GPUUnit) -> None:
        """Returns if the stock that the unit consumed is gone with its last pod; raises Blocked otherwise."""
        source = source_of(unit)
        if source is None:
            return
        stock = self.caches.units.get(source.key)
        # One cache holds the units of all namespaces, in the order of their changes: once it shows the admitted unit,
        # it has shown the stock before.
        if stock is not None and stock.metadata.uid == source.uid and not is_ending(stock.metadata):
            raise waiting(AWAITING_STOCK, f"stock unit {source.key} is not released yet", RELEASE_SECONDS)
        if pods := await self._pods_left(source):
            words = f"the pod of stock unit {source.key} has not ended yet: {', '.join(pods)}"
            raise waiting(AWAITING_STOCK, words, RELEASE_SECONDS)

    async def _operations(self, name: str) -> list[Operation]:
        """The records of this name in all namespaces.

        A controller that looked only where it is configured to, and was configured wrongly, would find no record of
        any unit and remove them all.
        """
        listing = await self.client.list(Query(OPERATIONS, fields=f"metadata.name={name}"))
        if listing.skipped:
            raise invalid(f"its operation {name} cannot be read: {listing.skipped[0].problem}")
        return listing.items

    async def _remove(self, unit: GPUUnit) -> None:
        meta = unit.metadata
        try:
            await self.client.delete(GPU_UNITS, meta.key, uid=meta.uid, resource_version=meta.resourceVersion)
        except NotFound:
            return

    async def _pods_left(self, source: Source) -> list[str]:
        """Names of the stock's pods that still exist."""
        if cached := self.caches.pods.find(BY_UID, source.uid):
            return sorted(pod.metadata.name for pod in cached)
        # The cache of pods may be behind that of units, so only the server can say that none is left.
        query = Query(PODS, source.key.namespace, labels=f"{UNIT}={source.key.name}")
        with reported_as(POD_STATUS_SYNC_FAILED):
            listing = await self.client.list(query)
        left = [pod.metadata.name for pod in listing.items if _runs_for(source, pod)]
        return sorted(left + [each.key.name for each in listing.skipped])

    def _age(self, unit: GPUUnit) -> float:
        created = unit.metadata.creationTimestamp
        age = (self.clock.now() - created).total_seconds() if created is not None else EXECUTOR_SECONDS
        return age if age > -1.0 else EXECUTOR_SECONDS  # a clock behind the server's must not delay anything


def _runs_for(source: Source, pod: PodView) -> bool:
    """Whether the pod belongs to the stock unit: by the label with the unit's UID, or else by its ReplicaSet's name."""
    if uids := controlled_by(pod.metadata.labels):
        return source.uid in uids
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == source.key.name
