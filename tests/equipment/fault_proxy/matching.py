"""Saying which calls, and which watch events, a fault is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equipment.fault_proxy.call import Call

Event = dict[str, Any]  # {"type": "ADDED", "object": {...}} as on the wire


@dataclass(frozen=True)
class Match:
    """A question about a call, composed with `&`, `|`, `~`; prints as the words it was asked in."""

    words: str
    test: Callable[[Call], bool]

    def __call__(self, call: Call) -> bool:
        return self.test(call)

    def __and__(self, other: Match) -> Match:
        return Match(f"{self} and {other}", lambda call: self(call) and other(call))

    def __or__(self, other: Match) -> Match:
        return Match(f"({self} or {other})", lambda call: self(call) or other(call))

    def __invert__(self) -> Match:
        return Match(f"not ({self})", lambda call: not self(call))

    def __str__(self) -> str:
        return self.words

    def named(self, name: str) -> Match:
        return self & Match(f"named {name}", lambda call: call.name == name)

    def in_namespace(self, namespace: str) -> Match:
        return self & Match(f"in {namespace}", lambda call: call.namespace == namespace)

    def subresource(self, subresource: str) -> Match:
        """Only this subresource; an empty string means the object itself."""
        return self & Match(f"of /{subresource}", lambda call: call.subresource == subresource)

    def by(self, client: str) -> Match:
        """Only calls whose User-Agent contains `client`."""
        return self & Match(f"by {client}", lambda call: client in call.user_agent)

    def where(self, test: Callable[[Call], bool], words: str = "where ...") -> Match:
        return self & Match(words, test)


def _about(words: str, resource: str, test: Callable[[Call], bool]) -> Match:
    """`resource` may be plain (`deployments`), qualified (`deployments.apps`), or empty for all."""
    return Match(
        f"{words} of {resource}" if resource else words,
        lambda call: test(call) and resource in ("", call.resource, call.qualified_resource),
    )


def _with_verb(verb: str, resource: str) -> Match:
    return _about(verb, resource, lambda call: call.verb == verb and bool(call.resource))


def creates(resource: str = "") -> Match:
    return _with_verb("create", resource)


def updates(resource: str = "") -> Match:
    return _with_verb("update", resource)


def patches(resource: str = "") -> Match:
    return _with_verb("patch", resource)


def deletes(resource: str = "") -> Match:
    return _with_verb("delete", resource)


def gets(resource: str = "") -> Match:
    return _with_verb("get", resource)


def lists(resource: str = "") -> Match:
    return _with_verb("list", resource)


def watches(resource: str = "") -> Match:
    return _with_verb("watch", resource)


def writes(resource: str = "") -> Match:
    """Every call that may store something, of one resource or of all."""
    return _about("write", resource, lambda call: call.mutating)


def reads(resource: str = "") -> Match:
    """Every get, list and watch, of one resource or of all."""
    return _about("read", resource, lambda call: bool(call.resource) and not call.mutating)


def calls(resource: str = "") -> Match:
    """Every call, of one resource or of all, those that name no object included."""
    return _about("call", resource, lambda call: True)


def events(change: str = "", *, name: str = "") -> Callable[[Event], bool]:
    """Watch events of one type (`DELETED`), about one object, or both."""

    def test(event: Event) -> bool:
        metadata = event.get("object", {}).get("metadata") or {}
        return change in ("", event.get("type")) and name in ("", metadata.get("name"))

    return test
