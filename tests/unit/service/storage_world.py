"""Storages on an API in memory: what is there, what a client asks for, and which calls that costs."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta, wire
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStorageSpec, GPUStorageStatus
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUStorage, UpdateGPUStorage
from gpu_runtime.rest.views import StorageView
from gpu_runtime.service.cluster import GPU_STORAGES
from gpu_runtime.service.storages.storage_class import STORAGE_CLASSES, StorageClass
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import CREATED, Memory, Process
from unit.service.replica import PLATFORM, Replica

T = TypeVar("T", bound=Object)
HERE = PLATFORM.instance_namespace
READY = GPUStorageStatus(phase="Ready", capacity="20Gi", mountable=True, observedGeneration=1)


class StorageMemory(Memory):
    """Also takes patches of a spec."""

    async def patch(self, resource: Resource[T], key: Key, patch: Mapping[str, Any]) -> T:
        spec = patch.get("spec", {})
        written: Any = await super().patch(resource, key, {"metadata": {"annotations": {}, **patch["metadata"]}})
        if not spec:
            return written  # type: ignore[no-any-return]
        changed = {name: value for name, value in {**wire(written.spec), **spec}.items() if value is not None}
        meta = replace(written.metadata, generation=written.metadata.generation + 1)
        return self._write(resource, replace(written, spec=msgspec.convert(changed, type(written.spec))), meta)


def a_world() -> StorageMemory:
    """The namespaces, and a storage class whose volumes can grow."""
    memory = StorageMemory()
    for name in (HERE, PLATFORM.system_namespace):
        memory.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
    memory.put(STORAGE_CLASSES, StorageClass(metadata=ObjectMeta(name="rook-ceph-block"), allowVolumeExpansion=True))
    return memory


def a_storage(name: str = "data", *, status: GPUStorageStatus = READY, size: str = "20Gi", **spec: Any) -> GPUStorage:
    return GPUStorage(
        metadata=ObjectMeta(name=name, namespace=HERE),
        spec=msgspec.convert({"size": size, **spec}, GPUStorageSpec),
        status=status,
    )


def with_storage(storage: GPUStorage | None = None) -> StorageMemory:
    memory = a_world()
    memory.put(GPU_STORAGES, storage or a_storage())
    return memory


def held_by(holder: Attachment, storage: GPUStorage) -> GPUStorage:
    return replace(storage, metadata=replace(storage.metadata, annotations=attached_to(holder)))


def deleting(storage: GPUStorage) -> GPUStorage:
    return replace(storage, metadata=replace(storage.metadata, deletionTimestamp=CREATED))


def key_of(name: str = "data") -> Key:
    return Key(HERE, name)


def stored(memory: Memory, name: str = "data") -> GPUStorage:
    found: GPUStorage = memory.objects[GPU_STORAGES.kind, key_of(name)]
    return found


def creating(replica: Replica, **body: Any) -> Awaitable[tuple[StorageView, bool]]:
    sent = {"name": "data", "size": "20Gi", **body}
    return replica.storages.create(parse(CreateGPUStorage, sent), sent)


def create(memory: Memory, **body: Any) -> tuple[StorageView, bool]:
    return finish(creating(Replica(memory).listen(), **body))


def update(memory: Memory, if_match: str = "", **body: Any) -> StorageView:
    change = parse(UpdateGPUStorage, body, partial=True)
    return finish(Replica(memory).storages.update(None, "data", change, if_match))


def stopped_before(work: Awaitable[Any], what: str) -> Process:
    """Stands still before the named call."""
    process = Process("first", lambda: work)
    while not process.next.startswith(what):
        process.step()
        assert not process.done, process.error
    return process


def run_on(process: Process) -> list[str]:
    """Runs it to its end; its calls."""
    calls = []
    while not process.done:
        calls.append(process.step().partition(": ")[2])
    return calls
