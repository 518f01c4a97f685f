"""The few rtnetlink requests a pod network needs: links, addresses and the default route, over one socket.

A socket belongs to the network namespace it was opened in, so one opened before `unshare` still speaks to the machine.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
NLMSG_ERROR, NLMSG_DONE = 2, 3
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_GETROUTE = 24, 26

IFLA_IFNAME, IFLA_MASTER, IFLA_LINKINFO, IFLA_NET_NS_PID = 3, 10, 18, 19
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY = 1, 4, 5
IFF_UP = 1

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBi")
_ROUTE = struct.Struct("=BBBBBBBBI")


def _attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def without_ipv6(link: str) -> None:
    """Turns IPv6 off. Pods use only IPv4, and IPv6 sends unsolicited packets that go to every port of the bridge.

    With some hundred pods that is more than the kernel queues: it drops packets then, also the machine's on loopback.
    The link `default` stands for all future links of this namespace.
    """
    try:
        with open(f"/proc/sys/net/ipv6/conf/{link}/disable_ipv6", "w") as file:
            file.write("1")
    except OSError:
        return  # a kernel without IPv6, or one that does not let us: it works either way


class Netlink:
    """Changes links, addresses and routes of the network namespace it was opened in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, kind: int, flags: int, body: bytes, what: str) -> list[bytes]:
        self._sequence += 1
        header = _HEADER.pack(_HEADER.size + len(body), kind, flags | NLM_F_REQUEST, self._sequence, 0)
        self._socket.send(header + body)
        found: list[bytes] = []
        while True:
            data = self._socket.recv(1 << 18)
            offset = 0
            while offset < len(data):
                length, answer, _, sequence, _ = _HEADER.unpack_from(data, offset)
                payload = data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3
                if sequence != self._sequence:
                    continue
                if answer == NLMSG_DONE:
                    return found
                if answer == NLMSG_ERROR:
                    number = -struct.unpack_from("=i", payload)[0]
                    if number:
                        raise OSError(number, os.strerror(number), what)
                    return found
                found.append(payload)

    def _change(self, kind: int, body: bytes, what: str, flags: int = NLM_F_CREATE | NLM_F_EXCL) -> None:
        self._request(kind, NLM_F_ACK | flags, body, what)

    def links(self) -> dict[str, int]:
        """Index by name of every link."""
        found = {}
        for payload in self._request(RTM_GETLINK, NLM_F_DUMP, _LINK.pack(0, 0, 0, 0, 0), "links"):
            index = _LINK.unpack_from(payload)[2]
            for kind, value in _attributes(payload[_LINK.size :]):
                if kind == IFLA_IFNAME:
                    found[value.rstrip(b"\0").decode()] = index
        return found

    def index(self, name: str) -> int:
        return socket.if_nametoindex(name)

    def add_bridge(self, name: str) -> None:
        info = _attribute(IFLA_LINKINFO, _text(IFLA_INFO_KIND, "bridge"))
        body = _LINK.pack(0, 0, 0, IFF_UP, IFF_UP) + _text(IFLA_IFNAME, name) + info
        self._change(RTM_NEWLINK, body, f"bridge {name}")

    def add_veth(self, name: str, *, master: int, peer: str, pid: int) -> None:
        """A pair of links: `name` here, up and on the bridge `master`; `peer` in the namespace of process `pid`."""
        other = _LINK.pack(0, 0, 0, 0, 0) + _text(IFLA_IFNAME, peer) + _number(IFLA_NET_NS_PID, pid)
        data = _attribute(IFLA_INFO_DATA, _attribute(VETH_INFO_PEER, other))
        info = _attribute(IFLA_LINKINFO, _text(IFLA_INFO_KIND, "veth") + data)
        body = _LINK.pack(0, 0, 0, IFF_UP, IFF_UP) + _text(IFLA_IFNAME, name) + _number(IFLA_MASTER, master) + info
        self._change(RTM_NEWLINK, body, f"veth {name}")

    def set_up(self, index: int) -> None:
        self._change(RTM_NEWLINK, _LINK.pack(0, 0, index, IFF_UP, IFF_UP), f"link {index} up", 0)

    def delete_link(self, name: str) -> None:
        body = _LINK.pack(0, 0, 0, 0, 0) + _text(IFLA_IFNAME, name)
        self._change(RTM_DELLINK, body, f"delete link {name}", 0)

    def _address(self, kind: int, index: int, address: str, prefix: int, flags: int) -> None:
        raw = socket.inet_aton(address)
        body = _ADDRESS.pack(socket.AF_INET, prefix, 0, 0, index) + _attribute(IFA_LOCAL, raw)
        self._change(kind, body + _attribute(IFA_ADDRESS, raw), f"address {address}/{prefix}", flags)

    def add_address(self, index: int, address: str, prefix: int) -> None:
        self._address(RTM_NEWADDR, index, address, prefix, NLM_F_CREATE | NLM_F_EXCL)

    def delete_address(self, index: int, address: str, prefix: int) -> None:
        self._address(RTM_DELADDR, index, address, prefix, 0)

    def addresses(self) -> list[tuple[int, str, int]]:
        """(link index, IPv4 address, prefix length) of every address."""
        found = []
        body = _ADDRESS.pack(socket.AF_INET, 0, 0, 0, 0)
        for payload in self._request(RTM_GETADDR, NLM_F_DUMP, body, "addresses"):
            family, prefix, _, _, index = _ADDRESS.unpack_from(payload)
            values = dict(_attributes(payload[_ADDRESS.size :]))
            raw = values.get(IFA_LOCAL) or values.get(IFA_ADDRESS)
            if family == socket.AF_INET and raw:
                found.append((index, socket.inet_ntoa(raw), prefix))
        return found

    def add_default_route(self, gateway: str, index: int) -> None:
        body = _ROUTE.pack(
            socket.AF_INET, 0, 0, 0, 254, 4, 0, 1, 0
        )  # table main, protocol static, scope universe, unicast
        body += _attribute(RTA_GATEWAY, socket.inet_aton(gateway)) + _number(RTA_OIF, index)
        self._change(RTM_NEWROUTE, body, f"default route by {gateway}")

    def routes(self) -> list[tuple[str, int]]:
        """(network, prefix length) of every IPv4 route but the default one."""
        found = []
        for payload in self._request(RTM_GETROUTE, NLM_F_DUMP, _ROUTE.pack(2, *([0] * 8)), "routes"):
            family, prefix = _ROUTE.unpack_from(payload)[:2]
            raw = dict(_attributes(payload[_ROUTE.size :])).get(RTA_DST)
            if family == socket.AF_INET and raw:
                found.append((socket.inet_ntoa(raw), prefix))
        return found
