"""Names and labels of a pool's children."""

from __future__ import annotations

from gpu_runtime.api.meta.names import joined
from gpu_runtime.api.meta.object import ObjectMeta, controller_reference
from gpu_runtime.api.v1alpha1.labels import POOL, STOCK_POOL_APP
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.labels import child_labels
from gpu_runtime.controllers.product_kinds import STOCK_POOLS


def child_name(pool: StockPool) -> str:
    """`pool-<name>`, for the Deployment and for the Service."""
    return joined("pool", pool.metadata.name)


def labels(pool: StockPool) -> dict[str, str]:
    return child_labels(STOCK_POOL_APP, POOL, pool.metadata.name)


def selector(pool: StockPool) -> dict[str, str]:
    return {POOL: pool.metadata.name}


def child_meta(pool: StockPool, annotations: dict[str, str] | None = None) -> ObjectMeta:
    owner = controller_reference(STOCK_POOLS.api_version, STOCK_POOLS.kind, pool.metadata)
    return ObjectMeta(
        name=child_name(pool),
        namespace=pool.metadata.namespace,
        labels=labels(pool),
        annotations=annotations or {},
        ownerReferences=[owner],
    )
