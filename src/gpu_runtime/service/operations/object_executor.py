"""Operations that create one object before the reply. If an executor stops, another one continues the operation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest.errors import AlreadyExists, ServiceError, Unavailable
from gpu_runtime.service.cluster import Cluster
from gpu_runtime.service.kubernetes_errors import CLIENT_ERRORS, refusal
from gpu_runtime.service.operations.executor import Done, Executor, Request, object_lives
from gpu_runtime.service.operations.records import Operations, made_by, unfinished
from gpu_runtime.service.reading import Reader

T = TypeVar("T", bound=Object)
MAX_ATTEMPTS = 10


@dataclass(frozen=True)
class CreatedObject(Done, Generic[T]):
    """A finished record, and its object if this call created or found it."""

    object: T | None = None


class ObjectExecutor(Executor[Request, CreatedObject[T]], Generic[Request, T]):
    """One type of operation that creates one object of `resource`."""

    noun: ClassVar[str]  # what messages call the kind, such as "stock pool"
    max_attempts = MAX_ATTEMPTS

    def __init__(self, cluster: Cluster, operations: Operations, resource: Resource[T], reader: Reader[T]) -> None:
        super().__init__(operations)
        self._cluster = cluster
        self._resource = resource
        self._reader = reader

    @abstractmethod
    def build(self, record: Operation) -> T:
        """The object that the record asks for."""

    async def execute(self, record: Operation) -> CreatedObject[T] | None:
        """Creates the object and finishes the record; None when the record is gone.

        Safe with several executors and retries: the record lists one UID, and an object with another UID is deleted.
        """
        for _ in range(MAX_ATTEMPTS):
            made = await self._make(record)
            if made is not None:
                self._reader.wrote(made)
                try:
                    return CreatedObject(await self._operations.succeed(record, objects=[self._reference(made)]), made)
                except (kube.Conflict, kube.NotFound):
                    pass  # another executor of this operation was faster
            current = await self._operations.get_by_name(record.metadata.name)
            if current is None or current.metadata.uid != record.metadata.uid:
                await self._remove(record, made)
                return None
            if not unfinished(current):
                if made is not None and current.status.objects[0].uid != made.metadata.uid:
                    await self._remove(record, made)
                return CreatedObject(current)
            record = current
        raise Unavailable(f"a {self.noun} with this name is still being deleted; send the request again")

    async def replay(self, record: Operation) -> CreatedObject[T] | None:
        return await self.execute(record) if unfinished(record) else CreatedObject(record)

    async def resume(self, record: Operation) -> None:
        await self.execute(record)

    async def lives(self, record: Operation) -> bool:
        return await object_lives(record, self._reader)

    async def settle(self, obj: T) -> None:
        """Finishes the record of an object before the object is deleted: otherwise an executor creates it again."""
        name = obj.metadata.labels.get(labels.OPERATION, "")
        for _ in range(MAX_ATTEMPTS):
            record = await self._operations.get_by_name(name) if name else None
            if record is None or not unfinished(record) or not made_by(obj.metadata, record):
                return
            try:
                await self._operations.succeed(record, objects=[self._reference(obj)])
                return
            except (kube.Conflict, kube.NotFound):
                continue
        raise Unavailable(f"the record of this {self.noun} keeps changing; send the request again")

    async def _make(self, record: Operation) -> T | None:
        """The operation's object, created or found; None when the record has to be read again."""
        wanted = self.build(record)
        try:
            return await self._cluster.create(self._resource, wanted)
        except CLIENT_ERRORS as error:
            cause = error
        # The server checks quotas before names: the quota may be full because our own object already exists.
        live = await self._reader.live(wanted.metadata.key)
        if live is not None and made_by(live.metadata, record):
            return await self._adopt(record, live)
        if live is None and isinstance(cause, kube.AlreadyExists):
            return None  # the object was deleted between the two calls: the record tells whether it was ours
        # No object was created, so the client may use the id again.
        if not await self._operations.remove(record):
            return None
        raise self._refusal(record, live, cause) from cause

    def _refusal(self, record: Operation, live: T | None, cause: kube.KubeError) -> ServiceError:
        if live is None or not isinstance(cause, kube.AlreadyExists):
            return refusal(cause)
        existing = f"{self.noun} {live.metadata.key}"
        if live.metadata.deletionTimestamp is not None:
            return AlreadyExists(f"{existing} is being deleted; send the request again when it is gone")
        return AlreadyExists(f"{existing} exists; operationID {record.spec.operationID} did not create it")

    async def _adopt(self, record: Operation, obj: T) -> T | None:
        """The object, annotated with the UID of this record; None when the object changed meanwhile.

        An executor whose record is gone removes objects with that record's UID, so an adopted one must not keep it.
        """
        meta = obj.metadata
        if meta.annotations.get(notes.OPERATION_UID) == record.metadata.uid:
            return obj
        mark = {"annotations": {notes.OPERATION_UID: record.metadata.uid}}
        try:
            return await self._cluster.patch(self._resource, meta.key, {"metadata": {**identity(meta), **mark}})
        except (kube.Conflict, kube.NotFound):
            return None

    async def _remove(self, record: Operation, obj: T | None) -> None:
        """Deletes an object that the record does not list, unless another record of this request adopted it."""
        while obj is not None and obj.metadata.annotations.get(notes.OPERATION_UID) == record.metadata.uid:
            meta = obj.metadata
            if notes.ATTACHED_TO in meta.annotations:
                return  # somebody uses this storage already: its data stays
            try:
                await self._cluster.delete(
                    self._resource, meta.key, uid=meta.uid, resource_version=meta.resourceVersion
                )
                return
            except kube.NotFound:
                return
            except kube.Conflict:
                live = await self._reader.live(meta.key)
                obj = live if live is not None and live.metadata.uid == meta.uid else None

    def _reference(self, obj: T) -> ObjectReference:
        meta = obj.metadata
        return ObjectReference(kind=self._resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid)
