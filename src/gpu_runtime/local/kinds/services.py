"""Services and the endpoints behind them."""

from __future__ import annotations

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.pods import Pod


class ServicePort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    port: int = 0
    name: str = ""
    protocol: str = "TCP"
    targetPort: int | str | None = None
    appProtocol: str | None = None


class ServiceSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    clusterIP: str = ""
    publishNotReadyAddresses: bool = False


class Service(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()

    def selects(self, pod: Pod) -> bool:
        return bool(self.spec.selector) and self.spec.selector.items() <= pod.metadata.labels.items()


class EndpointConditions(msgspec.Struct, frozen=True):
    ready: bool = True
    serving: bool = False
    terminating: bool = False


class TargetRef(msgspec.Struct, frozen=True):
    kind: str
    name: str
    namespace: str
    uid: str


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    addresses: list[str] = []
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""
    nodeName: str = ""
    targetRef: TargetRef | None = None


class EndpointPort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, order=True):
    name: str = ""
    port: int | None = None
    protocol: str = "TCP"
    appProtocol: str | None = None


class EndpointSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Empty lists are written as such: left out, they would come back as null."""

    metadata: ObjectMeta
    addressType: str = "IPv4"
    endpoints: list[Endpoint] | None = []
    ports: list[EndpointPort] | None = []


SERVICES = Resource("", "v1", "Service", "services", Service)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
