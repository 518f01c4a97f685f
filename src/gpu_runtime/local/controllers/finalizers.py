"""Removes the finalizers of our controllers."""

from __future__ import annotations

from typing import Any

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource


async def remove_finalizer(client: Client, resource: Resource[Any], meta: ObjectMeta, finalizer: str) -> None:
    """Removes the finalizer from the version that was read. Does nothing when the object is gone."""
    if finalizer not in meta.finalizers:
        return
    kept = [one for one in meta.finalizers if one != finalizer]
    patch = {"metadata": {**identity(meta), "finalizers": kept or None}}
    try:
        await client.patch(resource, meta.key, patch)
    except NotFound:
        return
