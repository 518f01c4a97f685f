"""Checks the Host header and the bearer token of each request."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from gpu_runtime.edge.names import host_name
from gpu_runtime.http.headers import single
from gpu_runtime.http.route import OWNER
from gpu_runtime.http.tokens import Tokens
from gpu_runtime.rest.errors import Forbidden


@dataclass(frozen=True)
class Guard:
    """Checks each request before any other code handles it."""

    hosts: frozenset[str] | None = None
    """Accepted host names; None accepts any. Without this check, a page of another site could let its own name resolve
    to loopback and call this server through the browser (DNS rebinding)."""
    tokens: Tokens | None = None

    def admit(self, request: web.Request, *, open_to_all: bool) -> None:
        if self.hosts is not None and host_name(request.host) not in self.hosts:
            raise Forbidden(f"host {request.host} is not allowed: add it to allowedHosts if it should be")
        if self.tokens is not None and not open_to_all:
            request[OWNER] = self.tokens.owner(single(request, "Authorization"))
