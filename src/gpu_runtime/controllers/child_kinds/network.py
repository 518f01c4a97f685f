"""Services and NetworkPolicies as we write and read them."""

from __future__ import annotations

from msgspec import Struct, field

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.controllers.child_kinds.workloads import LabelSelector
from gpu_runtime.kube.resource import Resource


class ServicePort(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""
    port: int
    targetPort: int | str  # always set: the server would default it to `port`
    protocol: str = "TCP"


class ServiceSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str = "ClusterIP"
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    externalIPs: list[str] = []


class Service(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class PolicyPort(Struct, frozen=True, omit_defaults=True, kw_only=True):
    protocol: str = "TCP"
    port: int | str | None = None


class IpBlock(Struct, frozen=True, omit_defaults=True, kw_only=True):
    cidr: str
    except_: list[str] = field(default_factory=list, name="except")


class Peer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    ipBlock: IpBlock | None = None
    namespaceSelector: LabelSelector | None = None
    podSelector: LabelSelector | None = None


class EgressRule(Struct, frozen=True, omit_defaults=True, kw_only=True):
    to: list[Peer] = []
    ports: list[PolicyPort] = []


class IngressRule(Struct, frozen=True, omit_defaults=True, kw_only=True):
    from_: list[Peer] = field(default_factory=list, name="from")
    ports: list[PolicyPort] = []


class NetworkPolicySpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    podSelector: LabelSelector
    policyTypes: list[str] = []
    ingress: list[IngressRule] = []
    egress: list[EgressRule] = []


class NetworkPolicy(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: NetworkPolicySpec


SERVICES = Resource("", "v1", "Service", "services", Service)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", NetworkPolicy)
