"""A request as Kubernetes understands it: the verb and what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import yaml

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})

# POSTs that ask a question and store nothing.
REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Call:
    """One request, parsed once; `resource` is empty for paths that name no object (`/version`, discovery)."""

    method: str
    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = ""
    user_agent: str = ""

    @property
    def mutating(self) -> bool:
        """Whether the server may store something because of this call."""
        return self.verb in WRITE_VERBS and self.group not in REVIEWS and bool(self.resource)

    @property
    def dry_run(self) -> bool:
        """Whether the caller asked that nothing be stored."""
        return "dryRun" in self.query or (isinstance(self.body, dict) and bool(self.body.get("dryRun")))

    @property
    def streaming(self) -> bool:
        """Whether the answer goes on for as long as the caller stays."""
        return self.verb == "watch" or (self.subresource == "log" and self.query.get("follow") in _TRUE)

    @property
    def qualified_resource(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def object(self) -> tuple[str, str, str]:
        """What identifies the object among all calls: resource, namespace and name."""
        return self.qualified_resource, self.namespace, self.name

    def __str__(self) -> str:
        if not self.resource:
            return f"{self.method} {self.path}"
        where = "/".join(part for part in (self.namespace, self.name) if part)
        what = self.qualified_resource + (f"/{self.subresource}" if self.subresource else "")
        return f"{self.verb} {what} {where}".rstrip()


def parse_call(method: str, raw_path: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
    """Reads a request line, headers and body as the API server would."""
    url = urlsplit(raw_path)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    content_type = headers.get("Content-Type", "")
    decoded = decode_body(body, content_type)
    place = _place([unquote(part) for part in url.path.strip("/").split("/")])
    watching = place.pop("watch", "") or query.get("watch") in _TRUE
    if method == "POST" and not place.get("name") and isinstance(decoded, dict):
        place["name"] = (decoded.get("metadata") or {}).get("name") or ""
    return Call(
        method=method,
        path=url.path,
        verb=_verb(method, bool(watching), bool(place.get("name"))),
        query=query,
        body=decoded,
        content_type=content_type,
        user_agent=headers.get("User-Agent", ""),
        **place,
    )


def decode_body(body: bytes, content_type: str) -> Any:
    """The document in a body, or None when there is none that can be read (protobuf, text)."""
    try:
        if "yaml" in content_type:
            return yaml.safe_load(body)
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, yaml.YAMLError):
        return None


def _place(parts: list[str]) -> dict[str, str]:
    if parts[0] == "api" and len(parts) >= 3:
        place, rest = {"version": parts[1]}, parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        place, rest = {"group": parts[1], "version": parts[2]}, parts[3:]
    else:
        return {}
    if rest[0] == "watch" and len(rest) > 1:
        place["watch"], rest = "1", rest[1:]
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        place["namespace"], rest = rest[1], rest[2:]
    place["resource"] = rest[0]
    if len(rest) > 1:
        place["name"] = rest[1]
    if len(rest) > 2:
        place["subresource"] = "/".join(rest[2:])
    return place


def _verb(method: str, watching: bool, named: bool) -> str:
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    if method in _VERBS:
        return _VERBS[method]
    if watching:
        return "watch"
    return "get" if named else "list"
