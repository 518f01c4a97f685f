"""The built-in kinds, from the data file that was taken from a real API server."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import Any

from gpu_runtime.local.apiserver.kinds import BuiltinFormat, Kind, Registry
from gpu_runtime.local.apiserver.library import Library
from gpu_runtime.local.apiserver.records import decode
from gpu_runtime.local.apiserver.schema import Node
from gpu_runtime.local.apiserver.strategies import STRATEGIES


@cache
def data() -> dict[str, Any]:
    """The data file: `version`, `resources`, `documents` and `fields`."""
    packed = files("gpu_runtime.local.apiserver").joinpath("data/kinds.json.gz").read_bytes()
    found: dict[str, Any] = decode(gzip.decompress(packed))
    return found


@cache
def builtin_groups() -> frozenset[str]:
    return frozenset(prefix.split("/")[1] for prefix in data()["documents"] if prefix.startswith("apis/"))


@cache
def library() -> Library:
    schemas: dict[str, Any] = {}
    for document in data()["documents"].values():
        schemas |= document["components"]["schemas"]
    return Library(schemas, data()["fields"])


def named_node(api_version: str, kind: str) -> Node | None:
    """The schema of a built-in kind, of Scale or of an options kind."""
    name = schema_names().get((api_version, kind))
    return library().named(name) if name else None


@cache
def schema_names() -> dict[tuple[str, str], str]:
    """(apiVersion, kind) -> name of its schema."""
    found = {}
    for document in data()["documents"].values():
        for name, schema in document["components"]["schemas"].items():
            for known in schema.get("x-kubernetes-group-version-kind", []):
                version = f"{known['group']}/{known['version']}" if known["group"] else known["version"]
                found[(version, known["kind"])] = name
    return found


def add_builtin_kinds(registry: Registry) -> None:
    names = schema_names()
    for prefix, entries in data()["resources"].items():
        parts = prefix.split("/")
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        api_version = f"{group}/{version}" if group else version
        for entry in entries:
            plural = entry["name"]
            if "/" in plural:
                continue
            registry.add(
                Kind(
                    group=group,
                    version=version,
                    kind=entry["kind"],
                    plural=plural,
                    singular=entry["singularName"],
                    namespaced=entry["namespaced"],
                    format=BuiltinFormat(library().named(names[(api_version, entry["kind"])])),
                    strategy=STRATEGIES[(group, plural)],
                    short_names=tuple(entry.get("shortNames", ())),
                    categories=tuple(entry.get("categories", ())),
                    subresources=frozenset(
                        one["name"].split("/", 1)[1] for one in entries if one["name"].startswith(plural + "/")
                    ),
                    verbs=tuple(entry["verbs"]),
                )
            )
