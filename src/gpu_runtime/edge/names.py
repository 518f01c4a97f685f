"""Host names and addresses of a server."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine that a foreign DNS server cannot redirect. IPv6 addresses are without brackets."""


def host_name(authority: str) -> str:
    """The host of `HOST:PORT` in lower case, without brackets; empty when there is no valid host."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").lower()
    except ValueError:
        return ""


def split_address(text: str) -> tuple[str, int]:
    """Host and port of a setting such as `[::1]:8080`; an empty host means all addresses."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def url_of(host: str, port: int) -> str:
    """The address of a server for people; 0.0.0.0 when it listens on all addresses."""
    if not host:
        return f"http://0.0.0.0:{port}"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def own_names(host: str, allowed: list[str]) -> frozenset[str]:
    """The names that a server on loopback answers to: those of the machine, its own, and the allowed ones."""
    return LOOPBACK_NAMES | {host.lower(), *(name.strip("[]").lower() for name in allowed)}
