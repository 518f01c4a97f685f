"""What an active unit may reach: name servers, addresses outside of the blocked ranges, and a worker the broker."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds.network import (
    EgressRule,
    IpBlock,
    NetworkPolicy,
    NetworkPolicySpec,
    Peer,
    PolicyPort,
)
from gpu_runtime.controllers.child_kinds.workloads import LabelSelector
from gpu_runtime.controllers.gpuunit.resources.names import child_meta, selector
from gpu_runtime.controllers.gpuunit.role import is_stock

NAMESPACE_NAME = "kubernetes.io/metadata.name"
DNS = [PolicyPort(protocol="TCP", port=53), PolicyPort(protocol="UDP", port=53)]


def network_policy(unit: GPUUnit, settings: ControllerManagerSettings) -> NetworkPolicy | None:
    """Keeps the user's program away from cluster networks and other tenants. None for stock: it runs no program."""
    if is_stock(unit, settings):
        return None
    return NetworkPolicy(
        metadata=child_meta(unit),
        spec=NetworkPolicySpec(
            podSelector=LabelSelector(matchLabels=selector(unit)),
            policyTypes=["Egress"],
            egress=[*outward(settings), *([to_broker(settings)] if unit.spec.serverless.enabled else [])],
        ),
    )


def to_broker(settings: ControllerManagerSettings) -> EgressRule:
    """A worker reaches the broker, and so does the user's program in its pod; the broker refuses it."""
    broker = settings.serverless
    inside = Peer(namespaceSelector=LabelSelector(matchLabels={NAMESPACE_NAME: broker.brokerNamespace}))
    outside = [Peer(ipBlock=IpBlock(cidr=cidr)) for cidr in broker.brokerCIDRs]
    return EgressRule(to=[inside, *outside], ports=[PolicyPort(port=port) for port in broker.broker_ports])


def outward(settings: ControllerManagerSettings) -> list[EgressRule]:
    """What a user's program may reach."""
    network = settings.network
    resolvers = [
        Peer(namespaceSelector=LabelSelector(matchLabels={NAMESPACE_NAME: network.dnsNamespace})),
        *(Peer(ipBlock=IpBlock(cidr=cidr)) for cidr in network.dnsCIDRs),
    ]
    outside = Peer(ipBlock=IpBlock(cidr="0.0.0.0/0", except_=sorted(set(network.blockedEgressCIDRs))))
    return [EgressRule(to=resolvers, ports=DNS), EgressRule(to=[outside])]
