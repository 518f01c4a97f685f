"""The pods' network on this machine: one bridge, one subnet that nobody else uses, one address a pod."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpu_runtime.local.node.recorded import recorded
from gpu_runtime.local.node.shim.netlink import Netlink, without_ipv6
from gpu_runtime.supervisor.files import write_private

PREFIX = 20  # 4,093 pods before an address is used again
CANDIDATES = [ipaddress.IPv4Network(f"10.{second}.0.0/{PREFIX}") for second in (213, 214, 215, 216, 217, 218, 219, 220)]
# Without a bridge every pod has its own address of the loopback network, on which its ports are forwarded.
LOOPBACK = ipaddress.IPv4Network(f"127.213.0.0/{PREFIX}")


class NoSubnet(Exception):
    """Every subnet we would take is in use on this machine."""


class NoAddress(Exception):
    """Every address of the subnet is held by a pod."""


class PodNetwork(msgspec.Struct, frozen=True):
    """Where pods get their addresses; `bridge` is empty where pods have loopback addresses."""

    bridge: str
    subnet: str

    @property
    def gateway(self) -> str:
        return str(ipaddress.IPv4Network(self.subnet)[1])

    @property
    def prefix(self) -> int:
        return ipaddress.IPv4Network(self.subnet).prefixlen


def choose_subnet(used: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """The first candidate that overlaps no address or route of the machine. Pure."""
    taken = list(used)
    for candidate in CANDIDATES:
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    raise NoSubnet(f"all of {CANDIDATES[0]} to {CANDIDATES[-1]} overlap with networks of this machine")


def choose_address(network: PodNetwork, held: Iterable[str], last: str) -> str:
    """The next free address after `last`: a freed one is used again as late as possible. Pure."""
    subnet = ipaddress.IPv4Network(network.subnet)
    taken = {*held, network.gateway, str(subnet[0]), str(subnet[-1])}
    start = int(ipaddress.IPv4Address(last)) - int(subnet[0]) if last else 1
    for step in range(1, subnet.num_addresses):
        address = str(subnet[(start + step) % subnet.num_addresses])
        if address not in taken:
            return address
    raise NoAddress(f"all addresses of {network.subnet} are held by pods")


def free_subnet(netlink: Netlink) -> ipaddress.IPv4Network:
    """A subnet that this machine does not use yet."""
    routes = [f"{network}/{prefix}" for network, prefix in netlink.routes()]
    addresses = [f"{address}/{prefix}" for _, address, prefix in netlink.addresses()]
    return choose_subnet(ipaddress.IPv4Network(used, strict=False) for used in (*routes, *addresses))


def open_bridge(record: Path, name: str) -> PodNetwork:
    """The bridge of an earlier agent when it still stands, else a new one; recorded before it is made."""
    with Netlink() as netlink:
        known = recorded(record, PodNetwork) or _standing(netlink, name)
        if known and known.bridge in netlink.links():
            _bring_up(netlink, known)
            return known
        while True:
            network = PodNetwork(name, str(free_subnet(netlink)))
            write_private(record, msgspec.json.encode(network))
            netlink.add_bridge(name)
            _bring_up(netlink, network)
            if not _taken_meanwhile(netlink, network):
                return network
            netlink.delete_link(name)


def standing(name: str) -> PodNetwork | None:
    """The network of this bridge, if the bridge exists."""
    with Netlink() as netlink:
        return _standing(netlink, name)


def _standing(netlink: Netlink, name: str) -> PodNetwork | None:
    """Reads the network of our bridge from the kernel, because its record cannot be read: pods may still use it."""
    index = netlink.index(name) if name in netlink.links() else 0
    for link, address, prefix in netlink.addresses():
        if link == index:
            return PodNetwork(name, str(ipaddress.IPv4Network(f"{address}/{prefix}", strict=False)))
    return None


def _taken_meanwhile(netlink: Netlink, network: PodNetwork) -> bool:
    """Whether another cluster chose the same subnet in the same moment; of the two the later bridge yields."""
    subnet, index = ipaddress.IPv4Network(network.subnet), netlink.index(network.bridge)
    return any(
        other < index and subnet.overlaps(ipaddress.IPv4Network(f"{address}/{prefix}", strict=False))
        for other, address, prefix in netlink.addresses()
    )


def _bring_up(netlink: Netlink, network: PodNetwork) -> None:
    index = netlink.index(network.bridge)
    without_ipv6(network.bridge)
    try:
        netlink.add_address(index, network.gateway, network.prefix)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    netlink.set_up(index)


def delete_link(name: str) -> None:
    """Removes a link that may be gone already."""
    with Netlink() as netlink:
        try:
            netlink.delete_link(name)
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
