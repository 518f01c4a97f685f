from __future__ import annotations

import ipaddress

import msgspec
import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.proxy.cluster_views import EndpointSlice
from gpu_runtime.proxy.errors import UnitNotFound, UnitNotReady
from gpu_runtime.proxy.targets import Target
from unit.proxy.world import a_slice, a_unit, targets

DEMO = Key("runtime-instance", "demo")


def test_a_unit_is_reached_at_the_endpoint_of_the_service_that_its_status_names() -> None:
    found = targets([a_unit()], [a_slice("10.0.0.9", 8080), a_slice("10.0.0.1", service="other")]).find(DEMO)
    assert found == Target("http", "10.0.0.9", 8080, "demo.runtime-instance.svc.cluster.local:8080")


def test_the_primary_port_is_taken_and_without_one_the_first() -> None:
    slices = [a_slice("10.0.0.9", 1, name="admin"), a_slice("10.0.0.9", 2, name="http", service="demo")]
    slices[1].metadata.labels["x"] = "y"
    known = targets([a_unit("demo", "admin", "http", primaryPort="http")], [renamed(slices[0]), slices[1]])
    assert known.find(DEMO).port == 2
    known = targets([a_unit("demo", "admin", "http")], [renamed(slices[0]), slices[1]])
    assert known.find(DEMO).port == 1


def test_a_unit_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(UnitNotFound, match="GPU unit ghost does not exist in namespace runtime-instance"):
        targets([a_unit()], [a_slice(service="ghost")]).find(Key("runtime-instance", "ghost"))


@pytest.mark.parametrize("access", [{"scheme": "grpc"}, {"primaryPort": "nothing"}])
def test_a_unit_that_speaks_no_http_is_not_found(access: dict[str, str]) -> None:
    with pytest.raises(UnitNotFound):
        targets([a_unit(**access)], [a_slice()]).find(DEMO)


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([], id="no endpoints"),
        pytest.param([a_slice(ready=False)], id="an endpoint that is not ready"),
        pytest.param([a_slice(name="other")], id="another port"),
        pytest.param([a_slice("metadata.internal", kind="FQDN")], id="a name to be resolved"),
        pytest.param([a_slice("not an address")], id="no address"),
        pytest.param([a_slice("169.254.169.254")], id="a refused address"),
        pytest.param([a_slice("::1", kind="IPv6")], id="a refused address of IPv6"),
        pytest.param([a_slice("::ffff:169.254.169.254", kind="IPv6")], id="a refused address of IPv4 inside of IPv6"),
    ],
)
@mutant("proxy/endpoints.py", "address = address.ipv4_mapped", "pass")
def test_a_unit_without_a_usable_endpoint_is_not_ready_and_says_why(slices: list[EndpointSlice]) -> None:
    refused = (ipaddress.ip_network("169.254.0.0/16"), ipaddress.ip_network("::1/128"))
    with pytest.raises(UnitNotReady, match="not ready: PodStartupFailed: the image is not there"):
        targets([a_unit()], slices, refused).find(DEMO)


def test_a_unit_whose_status_names_no_service_is_not_ready_whatever_endpoints_there_are() -> None:
    with pytest.raises(UnitNotReady):
        targets([a_unit(service="")], [a_slice(), a_slice(service="")]).find(DEMO)


def renamed(piece: EndpointSlice) -> EndpointSlice:
    return msgspec.structs.replace(piece, metadata=msgspec.structs.replace(piece.metadata, name="another"))
