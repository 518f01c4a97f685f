"""Replaces what two servers may rightly answer differently: identities, times, versions, generated names, addresses.

Identities and versions are numbered as they appear in a case, so that equal ones stay equal, different ones differ, and
the order of versions is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kube.differential.call import Json

UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
SUFFIX = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
GENERATED = re.compile(r"\b(kube-api-access-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
AGE = re.compile(r"(?:\d+[smhdy])+")
MAX_NAME = 63
DROPPED = {"managedFields", "storageVersionHash"}
OPAQUE = {"continue", "sendInitialEvents"}
COLLECTIONS = {"items", "rows"}
NEAR = timedelta(hours=1)
"""A time that a server wrote is close to now; any other came from the case and is compared."""


@dataclass
class Names:
    """What one server's identities and versions are called in one case."""

    namespace: str
    before: int = 0
    """The version of the server when the case began: the order of what was there already is not compared."""
    own_versions: bool = False
    """Whether versions are only masked, and not compared."""
    uids: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def uid(self, uid: str) -> str:
        if uid not in self.uids:
            self.uids.append(uid)
        return f"<uid {self.uids.index(uid)}>"

    def version(self, text: str) -> str:
        """The version of an object: which of those in the case it is, and how many of those before it are older."""
        if not text.isdecimal():
            return text
        if self.own_versions:
            return "<version>"
        if (version := int(text)) <= self.before:
            return "<version from before>"
        if version not in self.versions:
            self.versions.append(version)
        number = self.versions.index(version)
        return f"<version {number} after {sum(known < version for known in self.versions[:number])}>"

    def version_of(self, uid: str, version: str) -> str:
        """The version of the object that has the UID."""
        return self.version(version)

    def list_version(self, text: str) -> str:
        """The version of a list or bookmark, which moves with every write to the server: what it includes counts."""
        if not text.isdecimal():
            return text
        if self.own_versions:
            return "<version>"
        return f"<version that includes {sum(known <= int(text) for known in self.versions)}>"


@dataclass
class ByObject(Names):
    """Compares a version only with the last one of the same object, so that one difference does not cause others."""

    last: dict[str, int] = field(default_factory=dict)

    def version(self, text: str) -> str:
        return "<version>" if text.isdecimal() else text

    list_version = version

    def version_of(self, uid: str, version: str) -> str:
        if not version.isdecimal():
            return version
        before, self.last[uid] = self.last.get(uid), int(version)
        if before is None or self.own_versions:
            return "<version>"
        return (
            "<the same version>"
            if int(version) == before
            else f"<{'a later' if int(version) > before else 'an earlier'} version>"
        )


def masked(value: Json, names: Names) -> Json:
    """`value` with every identity, time, version, generated suffix and address replaced by its name."""
    generated = dict(_generated_names(value))
    return _document(_renamed(value, generated) if generated else value, names, datetime.now(UTC))


def _document(value: Json, names: Names, now: datetime) -> Json:
    if isinstance(value, dict):
        kept = {
            key: value[key] for key in sorted(value) if key not in DROPPED and (key, value[key]) != ("continue", "")
        }
        of_list = not COLLECTIONS.isdisjoint(kept)
        if of_list and isinstance(kept.get("metadata"), dict):
            kept["metadata"] = _listed(kept["metadata"], names)
        if isinstance(kept.get("uid"), str) and isinstance(kept.get("resourceVersion"), str):
            kept["resourceVersion"] = names.version_of(kept["uid"], kept["resourceVersion"])
        if kept.get("type") == "BOOKMARK" and isinstance(kept.get("object"), dict):
            kept["object"] = {**kept["object"], "metadata": _listed(kept["object"].get("metadata") or {}, names)}
        return {_text(key, names, now): _field(key, item, names, now) for key, item in kept.items()}
    if isinstance(value, list):
        return [_document(item, names, now) for item in value]
    return _text(value, names, now) if isinstance(value, str) else value


def _listed(metadata: Json, names: Names) -> Json:
    version = metadata.get("resourceVersion")
    return {**metadata, "resourceVersion": names.list_version(version)} if isinstance(version, str) else metadata


def _field(key: str, value: Json, names: Names, now: datetime) -> Json:
    if key == "resourceVersion" and isinstance(value, str):
        return names.version(value)
    if key in OPAQUE and isinstance(value, str) and value:
        return f"<{key}>"
    if key == "clusterIP" and value not in ("None", "", None):
        return "<clusterIP>"
    if key == "cells":
        return [AGE.sub("<age>", _text(cell, names, now)) if isinstance(cell, str) else cell for cell in value]
    if key == "columnDefinitions":
        return [{name: item for name, item in column.items() if name != "description"} for column in value]
    if key == "clusterIPs" and value != ["None"]:
        return ["<clusterIP>"] * len(value)
    return _document(value, names, now)


def _text(value: str, names: Names, now: datetime) -> str:
    def time(found: re.Match[str]) -> str:
        try:
            when = datetime.fromisoformat(found.group())
        except ValueError:
            return found.group()
        if abs(when - now) > NEAR:
            return found.group()
        return "<time with fraction>" if "." in found.group() else "<time>"

    named = GENERATED.sub(r"\1<generated>", value.replace(names.namespace, "<ns>"))
    return TIME.sub(time, UID.sub(lambda uid: names.uid(uid.group()), named))


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
