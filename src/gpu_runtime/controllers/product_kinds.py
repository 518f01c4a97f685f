"""Our own kinds, as the API serves them."""

from __future__ import annotations

from typing import TypeVar

from gpu_runtime.api.kind import Kind
from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.v1alpha1.kinds import GPU_UNIT, OPERATION, STOCK_POOL
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)


def served(kind: Kind[T]) -> Resource[T]:
    """The kind as the client asks for it."""
    return Resource(kind.group, kind.version, kind.kind, kind.plural, kind.type)


STOCK_POOLS = served(STOCK_POOL)
GPU_UNITS = served(GPU_UNIT)
OPERATIONS = served(OPERATION)
