"""The fields of units, storages and EndpointSlices that the proxy reads. Never written back."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS, Access
from gpu_runtime.api.v1alpha1.crds import GPU_STORAGE, GPU_UNIT
from gpu_runtime.api.v1alpha1.gpustorage import NO_ACCESSOR, Accessor
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


class StorageSpecView(Struct, frozen=True):
    accessor: Accessor = NO_ACCESSOR


class AccessorView(Struct, frozen=True):
    serviceName: str = ""


class StorageStatusView(Struct, frozen=True):
    accessor: AccessorView = AccessorView()
    conditions: list[ConditionView] = []


class StorageView(Struct, frozen=True, kw_only=True):
    """A GPUStorage: whether its files are to be served, who holds it, and the Service that its status names."""

    metadata: ObjectMeta
    spec: StorageSpecView = StorageSpecView()
    status: StorageStatusView = StorageStatusView()


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
STORAGES = Resource.of(GPU_STORAGE).view(StorageView)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
