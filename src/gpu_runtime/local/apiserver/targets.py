"""Parses the path of a request."""

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
    watch: bool = False
    """The path begins with `watch/`, which is another way to ask for `?watch=true`."""


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
    if rest[0] == "watch" and len(rest) > 1:
        found = parse_target("/".join(["", *parts[: len(parts) - len(rest)], *rest[1:]]))
        return found._replace(watch=True) if found is not None else None
    namespace = ""
    if (
        rest[0] == "namespaces"
        and not group
        and (len(rest) < 3 or (len(rest) == 3 and rest[2] in ("status", "finalize")))
    ):
        return _target(group, version, "", rest)
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    return _target(group, version, namespace, rest)


def _target(group: str, version: str, namespace: str, rest: list[str]) -> Target:
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, namespace, plural, name, subresource)
