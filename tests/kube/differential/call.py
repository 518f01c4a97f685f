"""What a case sends: calls as data, with places for what an earlier answer said.

A string may hold `${ns}` (the case's own namespace) or `${made.metadata.uid}` (a field of the answer kept as `made`);
it is filled in for each server apart, so that one case reads the same on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Json = Any  # an object of a case is whatever the case makes of it, right or wrong

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class Edited:
    """The answer kept as `base` with `changes` merged into it (a null removes)."""

    base: str
    changes: Json


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, and how its answer is looked at."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    """A document, an Edited one, or bytes sent as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: str = ""
    """The name under which later calls of the case refer to the answer."""
    until: int = 0
    """Send again, up to a deadline, until this code is answered: for what a server does a moment later."""
    events: int = 0
    """A watch: read as many events, or fewer if the server ends the stream."""
    words: bool = False
    """Compare the message of an error, too."""
    compare: bool = True
    """False for the setting up of a scene that another case is about."""


@dataclass(frozen=True, kw_only=True)
class OpenWatch:
    """Starts a watch that stays open while the following calls are sent."""

    path: str
    name: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReadWatch:
    """Compares the next events of a watch that was opened before."""

    name: str
    events: int


Step = Call | OpenWatch | ReadWatch


@dataclass(frozen=True)
class Case:
    """A named sequence of steps in a namespace of its own."""

    name: str
    steps: tuple[Step, ...]
    own_versions: str = ""
    """Why the versions of this case are not compared; empty where they are."""


def case(name: str, *steps: Step, own_versions: str = "") -> Case:
    return Case(name, steps, own_versions)


def get(path: str, **query: str) -> Call:
    return Call(method="GET", path=path, query=query)


def post(path: str, body: Json, keep: str = "", **query: str) -> Call:
    return Call(method="POST", path=path, body=body, keep=keep, query=query)


def put(path: str, body: Json, keep: str = "", **query: str) -> Call:
    return Call(method="PUT", path=path, body=body, keep=keep, query=query)


def edit(path: str, base: str, changes: Json, keep: str = "", **query: str) -> Call:
    """PUT of an earlier answer with changes, as a client does that reads, modifies and writes."""
    return put(path, Edited(base, changes), keep, **query)


def patch(path: str, body: Json, content: str, keep: str = "", **query: str) -> Call:
    return Call(method="PATCH", path=path, body=body, keep=keep, query=query, headers={"Content-Type": content})


def merge(path: str, body: Json, keep: str = "", **query: str) -> Call:
    return patch(path, body, MERGE_PATCH, keep, **query)


def strategic(path: str, body: Json, keep: str = "", **query: str) -> Call:
    return patch(path, body, STRATEGIC_PATCH, keep, **query)


def json_patch(path: str, *operations: Json, keep: str = "", **query: str) -> Call:
    return patch(path, list(operations), JSON_PATCH, keep, **query)


def delete(path: str, body: Json = None, **query: str) -> Call:
    return Call(method="DELETE", path=path, body=body, query=query)


def watch(path: str, events: int, **query: str) -> Call:
    return Call(method="GET", path=path, query={"watch": "true", "timeoutSeconds": "5", **query}, events=events)


def table(path: str, **query: str) -> Call:
    return Call(method="GET", path=path, query=query, headers={"Accept": TABLE})


def quietly(call: Call) -> Call:
    """Sets the scene: both servers must accept it, and nothing more is compared."""
    return replace(call, compare=False)


def until(code: int, call: Call) -> Call:
    return replace(call, until=code)


def worded(call: Call) -> Call:
    return replace(call, words=True)


def with_headers(call: Call, **headers: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(call, headers={**call.headers, **named})
