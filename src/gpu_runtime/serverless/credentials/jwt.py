"""JWTs of NATS: an operator signs accounts, an account signs users."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpu_runtime.serverless.credentials.creds import inbox_prefix
from gpu_runtime.serverless.credentials.nkeys import KeyPair
from gpu_runtime.serverless.credentials.permissions import Permissions

VERSION = 2
NO_LIMIT = -1
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_USER_LIMITS = dict.fromkeys(("subs", "data", "payload"), NO_LIMIT)
_ACCOUNT_LIMITS = {
    **_USER_LIMITS,
    **dict.fromkeys(("imports", "exports", "conn", "leaf"), NO_LIMIT),
    "wildcards": True,
}
_STREAM_LIMITS = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), NO_LIMIT)


def operator_jwt(operator: KeyPair, system_account: str, *, issued: int) -> str:
    """The operator, signed by itself. A server of this operator trusts every account that it signed."""
    claims = {"type": "operator", "system_account": system_account}
    return _signed(operator, operator.public, "gpu-runtime", issued, claims)


def account_jwt(
    operator: KeyPair,
    account: str,
    name: str,
    *,
    issued: int,
    streams: bool = False,
    signers: Sequence[str] = (),
    exports: Sequence[Mapping[str, Any]] = (),
    imports: Sequence[Mapping[str, Any]] = (),
) -> str:
    """An account. Each of `signers` may sign users of it. With `streams` it may have JetStream streams."""
    claims = {
        "type": "account",
        "limits": _ACCOUNT_LIMITS | (_STREAM_LIMITS if streams else {}),
        "signing_keys": list(signers),
        "exports": list(exports),
        "imports": list(imports),
    }
    return _signed(operator, account, name, issued, claims)


def user_jwt(
    signer: KeyPair,
    account: str,
    user: str,
    name: str,
    permissions: Permissions,
    *,
    issued: int,
    expires: int | None = None,
) -> str:
    """A user of the account, who may do what the permissions list, read the own answers, and do nothing else."""
    claims = {
        "type": "user",
        "issuer_account": account,
        "pub": {"allow": list(permissions.publish)},
        "sub": {"allow": [*permissions.subscribe, f"{inbox_prefix(user)}.>"]},
        **_USER_LIMITS,
    }
    return _signed(signer, user, name, issued, claims, expires)


def _signed(
    signer: KeyPair, subject: str, name: str, issued: int, nats: Mapping[str, Any], expires: int | None = None
) -> str:
    claims: dict[str, Any] = {
        "iss": signer.public,
        "sub": subject,
        "name": name,
        "iat": issued,
        "nats": {**nats, "version": VERSION},
    }
    if expires is not None:
        claims["exp"] = expires
    digest = hashlib.sha256(msgspec.json.encode(claims)).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_segment(msgspec.json.encode(_HEADER))}.{_segment(msgspec.json.encode(claims))}"
    return f"{signed}.{_segment(signer.sign(signed.encode()))}"


def _segment(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
