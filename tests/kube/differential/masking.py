"""Replaces what two servers may rightly answer differently: identities, times, versions, generated names, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kube.differential.call import Json

UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
SUFFIX = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
GENERATED = re.compile(r"\b(kube-api-access-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
AGE = re.compile(r"(?:\d+[smhdy])+")
MAX_NAME = 63
DROPPED = {"managedFields", "storageVersionHash"}
VERSIONS = {"resourceVersion", "continue", "sendInitialEvents"}
ADDRESSES = {"clusterIP", "nodePort", "healthCheckNodePort"}
NEAR = timedelta(hours=1)
"""A time that a server wrote is close to now; any other came from the case and is compared."""


def masked(value: Json, namespace: str) -> Json:
    """`value` with every identity, time, version, generated suffix and address replaced by its name."""
    names = dict(_generated_names(value))
    return _document(_renamed(value, names) if names else value, namespace, datetime.now(UTC))


def _document(value: Json, namespace: str, now: datetime) -> Json:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in DROPPED and (key, item) != ("continue", "")}
        return {_text(key, namespace, now): _field(key, item, namespace, now) for key, item in kept.items()}
    if isinstance(value, list):
        return [_document(item, namespace, now) for item in value]
    return _text(value, namespace, now) if isinstance(value, str) else value


def _field(key: str, value: Json, namespace: str, now: datetime) -> Json:
    if key in VERSIONS and isinstance(value, str) and value:
        return f"<{key}>"
    if key in ADDRESSES and value not in ("None", "", 0, None):
        return f"<{key}>"
    if key == "cells":
        return [AGE.sub("<age>", _text(cell, namespace, now)) if isinstance(cell, str) else cell for cell in value]
    if key == "columnDefinitions":
        return [{name: item for name, item in column.items() if name != "description"} for column in value]
    if key == "clusterIPs" and value != ["None"]:
        return ["<clusterIP>"] * len(value)
    return _document(value, namespace, now)


def _text(value: str, namespace: str, now: datetime) -> str:
    def time(found: re.Match[str]) -> str:
        try:
            when = datetime.fromisoformat(found.group())
        except ValueError:
            return found.group()
        if abs(when - now) > NEAR:
            return found.group()
        return "<time with fraction>" if "." in found.group() else "<time>"

    named = GENERATED.sub(r"\1<generated>", value.replace(namespace, "<ns>"))
    return TIME.sub(time, UID.sub("<uid>", named))


def _generated_names(value: Json) -> Iterator[tuple[str, str]]:
    """Each name that a server made up, and what stands for it; labels and the like may repeat it."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _generated_names(inner)
    if isinstance(value, dict):
        prefix, name = value.get("generateName"), value.get("name")
        if isinstance(prefix, str) and isinstance(name, str) and prefix:
            kept = prefix[: MAX_NAME - 5]
            if name.startswith(kept) and SUFFIX.fullmatch(name[len(kept) :]):
                yield name, f"{kept}<generated>"


def _renamed(value: Json, names: dict[str, str]) -> Json:
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
