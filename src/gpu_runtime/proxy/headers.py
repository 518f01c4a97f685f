"""Which headers pass, in either direction."""

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
"""They are meant for us or for another unit of the same address, and a unit is its tenant's program."""
CLAIMS = frozenset({"forwarded", "x-real-ip", "x-original-url", "x-rewrite-url"})
"""What a client says about itself or about its request; we say it in its place."""
FORWARDED = "x-forwarded-"
WEBSOCKET = "sec-websocket-"
FOR_THE_WHOLE_ADDRESS = frozenset(
    {
        *("set-cookie", "set-cookie2", "clear-site-data", "service-worker-allowed", "strict-transport-security"),
        *("alt-svc", "public-key-pins", "server"),
    }
)
"""What a unit's answer would change for every other unit of the same address."""


def to_unit(given: CIMultiDictProxy[str], *, host: str, client: str, public_host: str, prefix: str) -> CIMultiDict[str]:
    """Headers of a request as the unit gets them: without credentials, with our word on who asked for what."""
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
    """Headers of an answer as the client gets them; a redirect to one of the unit's `own` addresses stays with it."""
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
    """A redirect of the unit, which knows nothing of our prefix, as the client must follow it."""
    for origin in own:
        if location == origin or location.startswith(f"{origin}/"):
            location = location.removeprefix(origin) or "/"
            break
    return prefix + location if location.startswith("/") and not location.startswith("//") else location


def _named_by_connection(given: CIMultiDictProxy[str]) -> frozenset[str]:
    """Further hop-by-hop headers, which the sender names itself."""
    named = ",".join(given.getall("Connection", ()))
    return frozenset(name.strip().lower() for name in named.split(",") if name.strip())
