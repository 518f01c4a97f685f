"""Settings of the proxy."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.config.shared import Health, Log


def _cidr(text: str) -> object:
    return ipaddress.ip_network(text)


REFUSED_CIDRS = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::/127", "fe80::/10", "ff00::/8")
# Pods of the embedded cluster may have addresses in 127.213.0.0/16, so one machine refuses only 127.0.0.0/16.
LOCAL_SETTINGS = {"refusedCIDRs": ["127.0.0.0/16" if cidr == "127.0.0.0/8" else cidr for cidr in REFUSED_CIDRS]}


class ProxySettings(Struct, frozen=True, kw_only=True):
    """The proxy: HTTP access to units at /units/NAMESPACE/NAME/, and to files at /storages/NAMESPACE/NAME/."""

    log: Log = Log()
    health: Health = Health(port=8083)
    httpAddr: Annotated[str, Meta(pattern=r":[0-9]+$", description="HOST:PORT; an empty host is every address.")] = (
        "127.0.0.1:8090"
    )
    auth: Annotated[
        Literal["loopback", "none"],
        Meta(description="The proxy authenticates nobody: to listen on an address other than loopback, set `none`."),
    ] = "loopback"
    allowedHosts: Annotated[list[str], Meta(description="Further names that clients may call the proxy by.")] = []
    refusedCIDRs: Annotated[
        tuple[Annotated[str, Meta(extra={"check": _cidr})], ...],
        Meta(description="Addresses that no unit has: loopback, link-local, the control plane's own."),
    ] = REFUSED_CIDRS
    drainSeconds: Annotated[int, Meta(ge=0, le=600, description="How long requests may take to end after SIGTERM.")] = (
        20
    )
