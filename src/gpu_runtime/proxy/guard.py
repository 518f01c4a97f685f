"""Checks Host and Origin: a page of another site must not use the proxy through its visitor's browser."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from gpu_runtime.edge.names import host_name
from gpu_runtime.proxy.errors import Forbidden

NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Guard:
    """`hosts` are the accepted host names; None accepts any."""

    hosts: frozenset[str] | None = None

    def admit(self, request: web.BaseRequest) -> None:
        host = host_name(request.host)
        if self.hosts is not None and host not in self.hosts:
            raise Forbidden(f"host {request.host} is not allowed: add it to allowedHosts if it should be")
        origin = request.headers.get("Origin")
        changes = request.method not in SAFE_METHODS or "Upgrade" in request.headers
        # Browsers send Origin with each request that may change something and with WebSockets; programs do not.
        if origin is not None and changes and _name(origin) not in (self.hosts or {host}):
            raise Forbidden(f"a page of {origin} may not use this server: add its host to allowedHosts if it should")

    def admit_reading(self, request: web.BaseRequest) -> None:
        """Files are for people who open a page, and for programs. Pages of units have this address too, and their
        scripts must not read files with the browser of whoever visits them."""
        for header, value in NAVIGATION.items():
            if request.headers.get(header, value) != value:
                raise Forbidden("files are not for scripts and frames of pages: open the address itself")


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
