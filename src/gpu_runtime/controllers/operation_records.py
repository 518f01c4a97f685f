"""Reads Operations for the reconcilers: unfinished ones from a cache, finished ones by one live read each."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.controllers.product_kinds import OPERATIONS
from gpu_runtime.controllers.readiness import invalid
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.store import Store

BY_UID = "uid"
MOST_REMEMBERED = 64


class OperationRecords:
    """Finds Operations by name and UID.

    An entry in a record's list never changes, so a cached or remembered record that lists a unit is as good as a live
    one. Succeeded records are remembered, so that all units of one batch cost one read.
    """

    def __init__(self, client: Client, unfinished: Store[Operation]) -> None:
        self._client = client
        self._unfinished = unfinished
        self._finished: dict[str, Operation] = {}
        unfinished.index(BY_UID, lambda record: (record.metadata.uid,))

    def known(self, uid: str) -> Operation | None:
        """The record, if no read is needed for it."""
        cached = self._unfinished.find(BY_UID, uid)
        return cached[0] if cached else self._finished.get(uid)

    async def find(self, name: str, uid: str) -> Operation | None:
        """The record of this name and UID. None is final: it comes from the server, and UIDs are never reused."""
        if (record := self.known(uid)) is not None:
            return record
        # In all namespaces: with a wrong namespace in its settings, a controller must not take the record for deleted.
        listing = await self._client.list(Query(OPERATIONS, fields=f"metadata.name={name}"))
        if listing.skipped:
            raise invalid(f"its operation {name} cannot be read: {listing.skipped[0].problem}")
        record = next((each for each in listing.items if each.metadata.uid == uid), None)
        if record is not None and record.status.phase == "Succeeded":
            if len(self._finished) >= MOST_REMEMBERED:
                del self._finished[next(iter(self._finished))]
            self._finished[uid] = record
        return record
