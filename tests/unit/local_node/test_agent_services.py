"""Where the names and ports of Services lead."""

from __future__ import annotations

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.local.kinds.services import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Service,
    ServicePort,
    ServiceSpec,
)
from gpu_runtime.local.node.agent.services import Back, Front, backends, names
from gpu_runtime.local.node.hosts import ServiceName


def a_service(name: str, address: str, *ports: ServicePort) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace="n"), spec=ServiceSpec(clusterIP=address, ports=list(ports))
    )


def a_slice(service: str, ports: dict[str, int], **ready: bool) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name=f"{service}-1", namespace="n", labels={"kubernetes.io/service-name": service}),
        endpoints=[
            Endpoint(addresses=[address.replace("_", ".")[1:]], conditions=EndpointConditions(ready=each))
            for address, each in ready.items()
        ],
        ports=[EndpointPort(name=name, port=port) for name, port in ports.items()],
    )


WEB = a_service("web", "10.1.0.1", ServicePort(port=80, name="http"), ServicePort(port=81, name="admin"))
HEADLESS = a_service("head", "None", ServicePort(port=80))
SLICES = [
    a_slice("web", {"http": 8080}, _10_0_0_2=True, _10_0_0_3=False, _10_0_0_4=True),
    a_slice("head", {"": 8080}, _10_0_0_5=True, _10_0_0_6=True),
    EndpointSlice(metadata=ObjectMeta(name="empty", namespace="n")),
]


def test_a_port_leads_to_the_ready_endpoints_of_the_same_name() -> None:
    assert backends([WEB, HEADLESS], SLICES) == {
        Front("10.1.0.1", 80): [Back("10.0.0.2", 8080), Back("10.0.0.4", 8080)],
        Front("10.1.0.1", 81): [],
    }


def test_a_name_is_the_cluster_address_and_a_headless_one_its_pods() -> None:
    assert names([WEB, HEADLESS], SLICES, served=True) == [
        ServiceName("n", "web", "10.1.0.1"),
        ServiceName("n", "head", "10.0.0.5"),
        ServiceName("n", "head", "10.0.0.6"),
    ]


def test_where_cluster_addresses_cannot_be_served_names_lead_to_pods() -> None:
    assert names([WEB], SLICES, served=False) == [
        ServiceName("n", "web", "10.0.0.2"),
        ServiceName("n", "web", "10.0.0.4"),
    ]
