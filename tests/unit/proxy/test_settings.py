from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.cmd.processes import PROXY
from gpu_runtime.cmd.up.layout import Ports
from gpu_runtime.cmd.up.settings import overrides
from gpu_runtime.config import ConfigError, ProxySettings
from gpu_runtime.proxy.server import guard

PORTS = Ports(kubernetes=3, http={"proxy": 2}, health={"proxy": 6})
CONFIG = Path(__file__).resolve().parents[3] / "config"


@pytest.mark.parametrize("address", ["127.0.0.1:8090", "localhost:8090", "[::1]:8090"])
def test_on_loopback_only_its_own_names_and_the_allowed_ones_are_answered(address: str) -> None:
    hosts = guard(ProxySettings(httpAddr=address, allowedHosts=["GPU.example"])).hosts
    assert hosts == frozenset({"localhost", "127.0.0.1", "::1", "gpu.example"})


@pytest.mark.parametrize("address", [":8090", "0.0.0.0:8090", "[::]:8090", "10.0.0.1:8090", "gpu.example:8090"])
def test_other_machines_are_served_only_when_that_is_said_in_so_many_words(address: str) -> None:
    with pytest.raises(ConfigError, match="reachable from other machines"):
        guard(ProxySettings(httpAddr=address))
    assert guard(ProxySettings(httpAddr=address, auth="none")).hosts is None
    named = guard(ProxySettings(httpAddr=address, auth="none", allowedHosts=["gpu.example"]))
    assert named.hosts == frozenset({"gpu.example"})


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "169.254.169.254", "::", "::1", "fe80::1", "ff02::1"])
@mutant("config/proxy.py", '"::/127", "fe80::/10", "ff00::/8")', ")")
def test_no_unit_has_an_address_of_the_machine_or_its_link(address: str) -> None:
    local = PROXY.load_settings(CONFIG / "local" / "proxy.yaml", {}).refusedCIDRs
    of_up = overrides(PROXY, PORTS)["refusedCIDRs"]
    for cidrs in (ProxySettings().refusedCIDRs, local, of_up):
        refused = [ipaddress.ip_network(cidr) for cidr in cidrs]
        assert any(ipaddress.ip_address(address) in network for network in refused), cidrs


def test_up_and_the_settings_for_one_machine_refuse_the_same_addresses() -> None:
    local = PROXY.load_settings(CONFIG / "local" / "proxy.yaml", {}).refusedCIDRs
    assert list(local) == overrides(PROXY, PORTS)["refusedCIDRs"]
    pod = ipaddress.ip_address("127.213.0.9")
    assert not any(pod in ipaddress.ip_network(cidr) for cidr in local)
    assert any(pod in ipaddress.ip_network(cidr) for cidr in ProxySettings().refusedCIDRs)
