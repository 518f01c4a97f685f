"""What a path names."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class Target(NamedTuple):
    """A collection, an object or a subresource of one."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str = ""
    subresource: str = ""


def parse_target(raw_path: str) -> Target | None:
    """`/api/v1/...` or `/apis/GROUP/VERSION/...`; None for every other path."""
    parts = [unquote(part) for part in raw_path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if "" in rest:
        return None
    namespace = ""
    if (
        rest[0] == "namespaces"
        and not group
        and (len(rest) < 3 or (len(rest) == 3 and rest[2] in ("status", "finalize")))
    ):
        return Target(group, version, "", *rest)
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    return Target(group, version, namespace, *rest)
