"""Checks in a StorageClass whether its volumes can grow."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest.errors import Clash
from gpu_runtime.service.cluster import Cluster


class StorageClass(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    allowVolumeExpansion: bool = False


STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)


async def require_expansion(cluster: Cluster, name: str, storage: str) -> None:
    """Clash when volumes of this class cannot grow.

    If the class does not exist, the server refuses to grow its volumes too. Without this check, the request would be
    accepted and the volume would never get the size.
    """
    try:
        found = await cluster.get(STORAGE_CLASSES, Key("", name))
    except NotFound as error:
        raise Clash(f"storage {storage} cannot grow: its storage class {name} does not exist") from error
    if not found.allowVolumeExpansion:
        raise Clash(
            f"storage {storage} cannot grow: its storage class {name} does not allow it (allowVolumeExpansion is not "
            "true). Create a larger storage of another class with prepare.fromStorageName"
        )
