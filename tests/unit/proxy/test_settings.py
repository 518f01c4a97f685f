from __future__ import annotations

import ipaddress

import pytest

from gpu_runtime.config import ConfigError, ProxySettings
from gpu_runtime.proxy.server import guard


@pytest.mark.parametrize("address", ["127.0.0.1:8090", "localhost:8090", "[::1]:8090"])
def test_on_loopback_only_its_own_names_and_the_allowed_ones_are_answered(address: str) -> None:
    hosts = guard(ProxySettings(httpAddr=address, allowedHosts=["GPU.example"])).hosts
    assert hosts == frozenset({"localhost", "127.0.0.1", "::1", "gpu.example"})


@pytest.mark.parametrize("address", [":8090", "0.0.0.0:8090", "[::]:8090", "10.0.0.1:8090", "gpu.example:8090"])
def test_other_machines_are_served_only_when_that_is_said_in_so_many_words(address: str) -> None:
    with pytest.raises(ConfigError, match="reached from other machines"):
        guard(ProxySettings(httpAddr=address))
    assert guard(ProxySettings(httpAddr=address, auth="none")).hosts is None
    named = guard(ProxySettings(httpAddr=address, auth="none", allowedHosts=["gpu.example"]))
    assert named.hosts == frozenset({"gpu.example"})


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "169.254.169.254", "::", "::1", "fe80::1", "ff02::1"])
def test_no_unit_has_an_address_of_the_machine_or_its_link(address: str) -> None:
    refused = [ipaddress.ip_network(cidr) for cidr in ProxySettings().refusedCIDRs]
    assert any(ipaddress.ip_address(address) in network for network in refused)
