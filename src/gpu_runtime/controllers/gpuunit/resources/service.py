"""The Service of an active unit that listens, and the address that users are given."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.rules import primary_port
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds.network import Service
from gpu_runtime.controllers.gpuunit.resources.names import child_meta, selector
from gpu_runtime.controllers.gpuunit.role import is_stock
from gpu_runtime.controllers.service_ports import cluster_service


def service(unit: GPUUnit, settings: ControllerManagerSettings) -> Service | None:
    """A stable address for the unit; None for stock and for a unit without ports."""
    ports = unit.spec.template.ports
    if not ports or is_stock(unit, settings):
        return None
    return cluster_service(child_meta(unit), selector(unit), ports)


def access_url(unit: GPUUnit, settings: ControllerManagerSettings) -> str:
    """Where users reach the unit."""
    port = primary_port(unit.spec.access, unit.spec.template.ports)
    if port is None or is_stock(unit, settings):
        return ""
    return settings.units.accessURL.format(
        scheme=unit.spec.access.scheme,
        name=unit.metadata.name,
        namespace=unit.metadata.namespace,
        port=port.port,
    )
