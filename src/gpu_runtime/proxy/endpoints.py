"""The addresses behind a Service, without those that are refused."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from gpu_runtime.kube.store import Store
from gpu_runtime.proxy.cluster_views import SERVICE_NAME, EndpointSlice

BY_SERVICE = "service"
IP_FAMILIES = ("IPv4", "IPv6")  # not FQDN: others may control the DNS answer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Endpoints:
    """Finds endpoints in a cache of EndpointSlices."""

    def __init__(self, slices: Store[EndpointSlice], refused: Iterable[Network] = ()) -> None:
        self._slices = slices
        self._refused = tuple(refused)
        slices.index(BY_SERVICE, _service_of)

    def ready(self, namespace: str, service: str, port_name: str) -> Iterator[tuple[str, int]]:
        """Address and port of each ready pod behind the Service."""
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
