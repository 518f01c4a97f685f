"""The unit list of a batch: the UID of each number. An entry is written once, by compare-and-set on the Operation.

A unit that is not listed was never Ready, so no hand-over can have consumed it: it may be deleted and created again.
It is deleted only if no executor can list it later: its number is listed with another UID, or its record has Succeeded
or is gone. Otherwise another executor could list the deleted unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stock_batch import listed_uid, ordinal_of, seen_listed, unit_name, with_units
from gpu_runtime.kube import errors as kube
from gpu_runtime.rest.errors import AlreadyExists, Unavailable
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.operations.records import Operations, batch_of, made_by

MAX_ATTEMPTS = 20


class UnitList:
    """Writes UIDs into records, and deletes units whose number is listed with another UID."""

    def __init__(self, cluster: Cluster, operations: Operations) -> None:
        self._cluster = cluster
        self._operations = operations

    async def adopt(self, record: Operation, key: Key) -> str:
        """UID of the unit with this name, if this batch created it; empty if it is gone or being deleted.

        AlreadyExists if another request or a person created it.
        """
        try:
            unit = await self._cluster.get(GPU_UNITS, key)
        except kube.NotFound:
            return ""  # consumed or deleted between the two calls: the record tells which
        if not made_by(unit.metadata, record):
            raise AlreadyExists(f"stock unit {key} exists; operationID {record.spec.operationID} did not create it")
        if unit.metadata.deletionTimestamp is not None:
            return ""
        if unit.metadata.annotations.get(notes.OPERATION_UID) == record.metadata.uid or seen_listed(unit):
            return unit.metadata.uid
        # An earlier record of this request created the unit and is gone. The unit was never listed: delete it.
        current = await self._operations.get_by_name(record.metadata.name)
        if current is not None and current.metadata.uid == record.metadata.uid:
            await self._remove(key, unit.metadata.uid)
        return ""

    async def after_lost_write(self, record: Operation, held: Mapping[int, str]) -> Operation | None:
        """The record, read live; None if it is gone. Deletes the units of `held` that the record can never list."""
        for _ in range(MAX_ATTEMPTS):
            current = await self._operations.get_by_name(record.metadata.name)
            if current is None or current.metadata.uid != record.metadata.uid:
                await self._remove_units(record, held)
                return None
            open_ = {ordinal: uid for ordinal, uid in held.items() if not listed_uid(current, ordinal)}
            lost = {o: uid for o, uid in held.items() if listed_uid(current, o) not in ("", uid)}
            if current.status.phase == "Succeeded":
                await self._remove_units(record, lost | open_)
                return current
            await self._remove_units(record, lost)
            if current.status.phase != "Failed" or not open_:
                return current
            # A failed batch may be resumed, so its units are listed and stay.
            with suppress(kube.Conflict, kube.NotFound):
                return await self._operations.save(current, units=with_units(current, open_))
        raise Unavailable("the record of this batch keeps changing; the batch continues later")

    async def settle(self, unit: GPUUnit) -> None:
        """Lists a unit before it is deleted: otherwise its unfinished batch would create it again."""
        ordinal, name = ordinal_of(unit.metadata), unit.metadata.labels.get(labels.OPERATION, "")
        if not ordinal or not name:
            return
        for _ in range(MAX_ATTEMPTS):
            record = await self._operations.get_by_name(name)
            if record is None or record.status.phase == "Succeeded" or not made_by(unit.metadata, record):
                return
            if listed_uid(record, ordinal) or unit.metadata.name != unit_name(batch_of(record).name, ordinal):
                return
            with suppress(kube.Conflict, kube.NotFound):
                await self._operations.save(record, units=with_units(record, {ordinal: unit.metadata.uid}))
                return
        raise Unavailable("the record of this stock unit's batch keeps changing; send the request again")

    async def _remove_units(self, record: Operation, units: Mapping[int, str]) -> None:
        where = batch_of(record)
        for ordinal, uid in units.items():
            await self._remove(Key(where.namespace, unit_name(where.name, ordinal)), uid)

    async def _remove(self, key: Key, uid: str) -> None:
        with suppress(kube.NotFound, kube.Conflict):  # Conflict: another unit has the name by now
            await self._cluster.delete(GPU_UNITS, key, uid=uid)
