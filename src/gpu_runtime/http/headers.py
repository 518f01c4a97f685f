"""Request headers that routes use."""

from __future__ import annotations

import re

from aiohttp import web

from gpu_runtime.api.validation import FieldError
from gpu_runtime.rest.errors import Forbidden, InvalidRequest

_VERSION = re.compile(r"\"([0-9]{1,20})\"|([0-9]{1,20})")
_EVENT = re.compile(r"[0-9]{1,64}")


def single(request: web.Request, name: str) -> str | None:
    """The header's value; InvalidRequest when it is given twice: it is unclear which one is meant."""
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise InvalidRequest.of([FieldError(name, "may be given once")])
    return values[0].strip() if values else None


def check_origin(request: web.Request) -> None:
    """Forbidden for a request that a page of another site made.

    Needed where a POST has no body: a browser sends it without asking, and no Content-Type can be required of it.
    Browsers name the page's own server in Origin; other clients send no Origin.
    """
    origin = single(request, "Origin")
    if origin is not None and origin.partition("://")[2] != request.host:
        raise Forbidden(f"a page of {origin} may not send this request")


def if_match(request: web.Request) -> str:
    """The version that the client wants to change; empty for any version (`*`, or no header).

    Anything else is refused: a condition that cannot be checked must not be ignored. Weak tags (`W/"1"`) never match
    in HTTP, and one compare-and-set cannot check a list of versions.
    """
    given = single(request, "If-Match")
    if given is None or given == "*":
        return ""
    found = _VERSION.fullmatch(given)
    if found is None:
        message = 'must be one version in quotes as in the header ETag, such as "123", or * for any version'
        raise InvalidRequest.of([FieldError("If-Match", message)])
    return str(found[1] or found[2])


def last_event_id(request: web.Request, asked: str) -> str:
    """The version after which a watch resumes: from the header, or else `asked`, which comes from the query."""
    given = single(request, "Last-Event-ID") or asked
    if given and not _EVENT.fullmatch(given):
        raise InvalidRequest.of([FieldError("Last-Event-ID", "must be the id of an earlier event")])
    return given


def etag(version: str) -> dict[str, str]:
    """The header with the version of an object; none for an object that is gone."""
    return {"ETag": f'"{version}"'} if version else {}
