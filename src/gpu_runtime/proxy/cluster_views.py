"""The fields of units and EndpointSlices that the proxy reads. Never written back."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS, Access
from gpu_runtime.api.v1alpha1.crds import GPU_UNIT
from gpu_runtime.kube.resource import Resource

SERVICE_NAME = "kubernetes.io/service-name"  # label of a slice


class PortView(Struct, frozen=True):
    name: str
    port: int


class TemplateView(Struct, frozen=True):
    ports: list[PortView] = []


class UnitSpecView(Struct, frozen=True):
    template: TemplateView = TemplateView()
    access: Access = DEFAULT_ACCESS


class ConditionView(Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class UnitStatusView(Struct, frozen=True):
    serviceName: str = ""
    conditions: list[ConditionView] = []


class UnitView(Struct, frozen=True, kw_only=True):
    """A GPUUnit: its ports, and the Service that its status names."""

    metadata: ObjectMeta
    spec: UnitSpecView = UnitSpecView()
    status: UnitStatusView = UnitStatusView()


class EndpointConditions(Struct, frozen=True):
    ready: bool | None = None  # absent counts as ready, as Kubernetes says


class Endpoint(Struct, frozen=True):
    addresses: list[str] = []
    conditions: EndpointConditions = EndpointConditions()


class EndpointPort(Struct, frozen=True):
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(Struct, frozen=True, kw_only=True):
    """Addresses behind a Service."""

    metadata: ObjectMeta
    addressType: str = ""
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None


UNITS = Resource.of(GPU_UNIT).view(UnitView)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
