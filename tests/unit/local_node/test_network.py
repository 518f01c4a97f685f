"""Subnets and addresses that nobody else has."""

from __future__ import annotations

import ipaddress

import pytest

from gpu_runtime.local.node.network import CANDIDATES, NoAddress, NoSubnet, PodNetwork, choose_address, choose_subnet

NETWORK = PodNetwork("br", "10.213.0.0/29")


def test_a_subnet_that_the_machine_uses_is_passed_over() -> None:
    used = [ipaddress.IPv4Network("10.213.4.0/24"), ipaddress.IPv4Network("10.214.0.0/15")]
    assert choose_subnet(used) == ipaddress.IPv4Network("10.216.0.0/20")


def test_no_free_subnet_is_said() -> None:
    with pytest.raises(NoSubnet, match=str(CANDIDATES[0])):
        choose_subnet([ipaddress.IPv4Network("10.0.0.0/8")])


def test_addresses_go_round_so_that_a_freed_one_is_used_late() -> None:
    assert choose_address(NETWORK, [], "") == "10.213.0.2"
    assert choose_address(NETWORK, [], "10.213.0.2") == "10.213.0.3"
    assert choose_address(NETWORK, ["10.213.0.2"], "10.213.0.6") == "10.213.0.3"


def test_a_full_subnet_is_said() -> None:
    held = [f"10.213.0.{last}" for last in range(2, 7)]
    with pytest.raises(NoAddress, match=r"10\.213\.0\.0/29"):
        choose_address(NETWORK, held, "10.213.0.6")
