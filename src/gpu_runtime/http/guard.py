"""Who may speak to this server at all: the address that was called, and the token that was shown."""

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
    """Checks every request before anything else looks at it."""

    hosts: frozenset[str] | None = None
    """Names that this server is called by; None accepts any. Without the check a page of another site could have its
    own name resolve to loopback and speak to us through the browser."""
    tokens: Tokens | None = None

    def admit(self, request: web.Request, *, open_to_all: bool) -> None:
        if self.hosts is not None and host_name(request.host) not in self.hosts:
            raise Forbidden(f"this server is not called {request.host}: add the name to allowedHosts if it should be")
        if self.tokens is not None and not open_to_all:
            request[OWNER] = self.tokens.owner(single(request, "Authorization"))
