"""Picks the target address of a unit, from its status and the endpoints of its Service, never from the request."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.rules import primary_port
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.store import Store
from gpu_runtime.proxy.cluster_views import (
    ENDPOINT_SLICES,
    SERVICE_NAME,
    UNITS,
    EndpointSlice,
    UnitView,
)
from gpu_runtime.proxy.errors import UnitNotFound, UnitNotReady

BY_SERVICE = "service"
SCHEMES = ("http", "https")
IP_FAMILIES = ("IPv4", "IPv6")  # not FQDN: others may control the DNS answer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Target:
    """The address that a request to a unit is forwarded to."""

    scheme: str
    address: str
    port: int
    host: str
    """The unit's host name inside the cluster."""


class Targets:
    """Finds the target of a unit in caches."""

    def __init__(self, units: Store[UnitView], slices: Store[EndpointSlice], refused: Iterable[Network] = ()) -> None:
        self._units = units
        self._slices = slices
        self._refused = tuple(refused)
        slices.index(BY_SERVICE, _service_of)

    @classmethod
    def of(cls, manager: Manager, refused: Iterable[Network]) -> Targets:
        return cls(manager.cache(Query(UNITS)), manager.cache(Query(ENDPOINT_SLICES)), refused)

    def find(self, key: Key) -> Target:
        """The target; UnitNotFound or UnitNotReady say what is missing."""
        unit = self._units.get(key)
        if unit is None:
            raise UnitNotFound(f"GPU unit {key.name} does not exist in namespace {key.namespace}")
        port = primary_port(unit.spec.access, unit.spec.template.ports)
        if port is None:
            raise UnitNotFound(f"GPU unit {key} has no port")
        scheme = unit.spec.access.scheme
        if scheme not in SCHEMES:
            raise UnitNotFound(f"GPU unit {key} has the scheme {scheme}: only http and https are forwarded")
        service = unit.status.serviceName
        for address, number in self._endpoints(key.namespace, service, port.name) if service else ():
            return Target(scheme, address, number, f"{service}.{key.namespace}.svc.cluster.local:{port.port}")
        raise UnitNotReady(f"GPU unit {key} is not ready{_why(unit)}")

    def _endpoints(self, namespace: str, service: str, port_name: str) -> Iterator[tuple[str, int]]:
        for piece in self._slices.find(BY_SERVICE, f"{namespace}/{service}"):
            for port in piece.ports or ():
                if port.name != port_name or port.port is None or port.protocol not in ("TCP", None):
                    continue
                for endpoint in piece.endpoints or ():
                    if endpoint.conditions.ready is False:
                        continue
                    yield from ((address, port.port) for address in endpoint.addresses if self._permitted(address))

    def _permitted(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped  # ::ffff:127.0.0.1 is 127.0.0.1: check it against IPv4 ranges
        return not any(address in network for network in self._refused)


def _service_of(piece: EndpointSlice) -> Iterable[str]:
    service = piece.metadata.labels.get(SERVICE_NAME)
    if service and piece.addressType in IP_FAMILIES:
        yield f"{piece.metadata.namespace}/{service}"


def _why(unit: UnitView) -> str:
    for condition in unit.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            return f": {condition.reason}: {condition.message}".rstrip(": ")
    return ""
