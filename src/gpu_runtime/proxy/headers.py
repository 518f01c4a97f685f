"""Which headers are forwarded, in both directions."""

from __future__ import annotations

from collections.abc import Iterable

from multidict import CIMultiDict, CIMultiDictProxy

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
CREDENTIALS = frozenset({"authorization", "cookie", "cookie2"})
"""Not forwarded: they are meant for the proxy or for other units at this address, and a unit runs a tenant's code."""
CLAIMS = frozenset({"forwarded", "x-real-ip", "x-original-url", "x-rewrite-url"})
"""Set by the proxy; the client's values are dropped."""
FORWARDED = "x-forwarded-"
WEBSOCKET = "sec-websocket-"
FOR_THE_WHOLE_ADDRESS = frozenset(
    {
        *("set-cookie", "set-cookie2", "clear-site-data", "service-worker-allowed", "strict-transport-security"),
        *("alt-svc", "public-key-pins", "server"),
    }
)
"""Dropped from responses: they would affect all other units at the same address."""


def to_unit(given: CIMultiDictProxy[str], *, host: str, client: str, public_host: str, prefix: str) -> CIMultiDict[str]:
    """Request headers for the unit: without credentials, with our own X-Forwarded headers."""
    dropped = HOP_BY_HOP | CREDENTIALS | CLAIMS | _named_by_connection(given) | {"host", "expect", "content-length"}
    passed = CIMultiDict(
        (name, text(value))
        for name, value in given.items()
        if name.lower() not in dropped and not name.lower().startswith((FORWARDED, WEBSOCKET))
    )
    passed["Host"] = host
    passed["X-Forwarded-For"] = client
    passed["X-Forwarded-Host"] = text(public_host)
    passed["X-Forwarded-Proto"] = "http"
    passed["X-Forwarded-Prefix"] = prefix
    return passed


def to_client(given: CIMultiDictProxy[str], *, prefix: str, own: Iterable[str]) -> CIMultiDict[str]:
    """Response headers for the client. A redirect to one of the unit's `own` addresses is rewritten to the prefix."""
    dropped = HOP_BY_HOP | FOR_THE_WHOLE_ADDRESS | _named_by_connection(given)
    passed = CIMultiDict((name, text(value)) for name, value in given.items() if name.lower() not in dropped)
    if "Location" in passed:
        passed["Location"] = within(passed["Location"], prefix, own)
    return passed


def text(value: str) -> str:
    """The value; if it is not UTF-8, read as Latin-1, which older programs write. aiohttp would drop those bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
    return value


def within(location: str, prefix: str, own: Iterable[str]) -> str:
    """Rewrites a redirect for the client: the unit does not know the prefix."""
    for origin in own:
        if location == origin or location.startswith(f"{origin}/"):
            location = location.removeprefix(origin) or "/"
            break
    return prefix + location if location.startswith("/") and not location.startswith("//") else location


def _named_by_connection(given: CIMultiDictProxy[str]) -> frozenset[str]:
    """Hop-by-hop headers that the Connection header names."""
    named = ",".join(given.getall("Connection", ()))
    return frozenset(name.strip().lower() for name in named.split(",") if name.strip())
