"""Who may speak to the proxy: a page of some other site must not, through the browser of its visitor."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from gpu_runtime.edge.names import host_name
from gpu_runtime.proxy.errors import Forbidden

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Guard:
    """`hosts` are the names that the proxy is called by; None accepts any."""

    hosts: frozenset[str] | None = None

    def admit(self, request: web.BaseRequest) -> None:
        host = host_name(request.host)
        if self.hosts is not None and host not in self.hosts:
            raise Forbidden(f"this server is not called {request.host}: add the name to allowedHosts if it should be")
        origin = request.headers.get("Origin")
        changes = request.method not in SAFE_METHODS or "Upgrade" in request.headers
        # Browsers say where a page came from whenever it changes something or opens a socket; programs do not.
        if origin is not None and changes and _name(origin) not in (self.hosts or {host}):
            raise Forbidden(f"a page of {origin} may not use this server: add its host to allowedHosts if it should")


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
