"""Picks the address where the files of a storage are served, or says why they are not served now."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.reasons import ACCESSOR_READY
from gpu_runtime.kube.store import Store
from gpu_runtime.proxy.cluster_views import StorageView
from gpu_runtime.proxy.endpoints import Endpoints
from gpu_runtime.proxy.errors import FilesDisabled, FilesNotReady, FilesUnreachable, StorageNotFound
from gpu_runtime.proxy.targets import Target, why_not

PORT_NAME = "http"


class StorageTargets:
    """Finds the accessor of a storage in caches."""

    def __init__(self, storages: Store[StorageView], endpoints: Endpoints) -> None:
        self._storages = storages
        self._endpoints = endpoints

    def find(self, key: Key) -> Target:
        """The target; an error says what is missing."""
        storage = self._storages.get(key)
        if storage is None:
            raise StorageNotFound(f"GPU storage {key.name} does not exist in namespace {key.namespace}")
        if not storage.spec.accessor.enabled:
            raise FilesDisabled(f"the files of GPU storage {key} are not served: set accessor.enabled")
        if (holder := attachment_of(storage.metadata)) is not None:
            raise FilesNotReady(
                f"the files of GPU storage {key} are not served while {holder} holds it: they are served again when "
                "it is free"
            )
        service = storage.status.accessor.serviceName
        for address, port in self._endpoints.ready(key.namespace, service, PORT_NAME) if service else ():
            host = f"{service}.{key.namespace}.svc.cluster.local:{port}"
            return Target("http", address, port, host, "accessor of the GPU storage", FilesUnreachable)
        why = why_not(storage.status.conditions, ACCESSOR_READY)
        raise FilesNotReady(f"the files of GPU storage {key} are not served yet{why}")
