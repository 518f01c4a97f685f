"""The differences that are known and accepted: a short list, each entry with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kube.differential.answer import Difference
from kube.differential.call import Call

FILE = Path(__file__).parent / "tolerated.yaml"
LIMIT = 25
OURS = {"stockpools", "gpuunits", "gpustorages", "gpufunctions", "operations", "pods", "deployments"}
"""Kinds for which nothing is tolerated."""
PREFIX = re.compile(r"^(?:items\[\d+\]|events\[\d+\]\.object)\.")
INDEX = re.compile(r"\[\d+\]")
NAMESPACE = re.compile(r"/api/v1/(?P<kind>namespaces)(?P<name>/[^/]+)?(?P<sub>/status|/finalize)?$")
COLLECTION = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+/(?:namespaces/[^/]+/)?(?P<kind>[^/]+)(?P<name>/[^/]+)?(?P<sub>/.+)?$"
)


@dataclass(frozen=True)
class Entry:
    """One kind, verb and field that may differ. `field` is as in a difference, lists without their index."""

    kind: str
    verb: str
    field: str
    reason: str

    def __post_init__(self) -> None:
        if not self.reason or "*" in self.kind + self.verb + self.field:
            raise ValueError(f"{self}: an entry names one kind, one verb and one field, with its reason")


@dataclass
class Tolerance:
    """Takes tolerated differences out, and remembers which entries were needed."""

    entries: list[Entry]
    used: set[Entry] = field(default_factory=set)

    @classmethod
    def load(cls) -> Tolerance:
        return cls([Entry(**entry) for entry in yaml.safe_load(FILE.read_text()) or []])

    def without(self, call: Call, found: list[Difference]) -> list[Difference]:
        """`found` less what the list tolerates."""
        kind, verb = subject(call)
        left = []
        for difference in found:
            place = INDEX.sub("", PREFIX.sub("", difference.field))
            match = [entry for entry in self.entries if (entry.kind, entry.verb, entry.field) == (kind, verb, place)]
            self.used.update(match)
            if not match:
                left.append(difference)
        return left


VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


def subject(call: Call) -> tuple[str, str]:
    """The resource (with its subresource) and the verb of a call, as discovery names them."""
    path = call.path.replace("/namespaces/${ns}/", "/namespaces/NS/")
    found = NAMESPACE.match(path) or COLLECTION.match(path)
    if found is None:
        return path, call.method
    kind = found["kind"] + (found["sub"] or "")
    verb = VERBS.get(call.method, call.method)
    if call.events or call.query.get("watch"):
        verb = "watch"
    elif not found["name"] and verb in ("get", "delete"):
        verb = {"get": "list", "delete": "deletecollection"}[verb]
    return kind, verb
