"""Authentication: one administrator, by token or by client certificate."""

from __future__ import annotations

import hmac
from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver.errors import Status, unauthorized

PUBLIC = ("/healthz", "/livez", "/readyz", "/version")


class Authenticator:
    """Accepts the token, or a certificate that our CA signed: the TLS layer has verified it."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def check(self, request: web.BaseRequest) -> None:
        header = request.headers.get("Authorization", "")
        if header:
            scheme, _, credential = header.partition(" ")
            given = credential.strip().encode("utf-8", "replace")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._token):
                raise unauthorized()
            return
        certificate: Any = request.get_extra_info("peercert")
        if not certificate and not request.path.startswith(PUBLIC):
            text = f'forbidden: User "system:anonymous" cannot {_verb(request)} path "{request.path}"'
            raise Status(403, "Forbidden", text, {})


def _verb(request: web.BaseRequest) -> str:
    verbs = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    return verbs.get(request.method, request.method.lower())
