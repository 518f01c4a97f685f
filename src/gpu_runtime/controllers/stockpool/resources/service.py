"""The Service of a pool whose pods listen."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.child_kinds.network import Service
from gpu_runtime.controllers.service_ports import cluster_service
from gpu_runtime.controllers.stockpool.resources.names import child_meta, selector


def service(pool: StockPool) -> Service | None:
    """One stable address for the pool's pods; None while the template has no ports."""
    ports = pool.spec.template.ports
    return cluster_service(child_meta(pool), selector(pool), ports) if ports else None
