"""A ClusterIP Service for the ports of a template."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.template import Port
from gpu_runtime.controllers.child_kinds.network import Service, ServicePort, ServiceSpec


def cluster_service(metadata: ObjectMeta, selector: dict[str, str], ports: Iterable[Port]) -> Service:
    """Serves each port under its own number."""
    served = [
        ServicePort(name=port.name, port=port.port, targetPort=port.port, protocol=port.protocol) for port in ports
    ]
    return Service(metadata=metadata, spec=ServiceSpec(type="ClusterIP", selector=selector, ports=served))
