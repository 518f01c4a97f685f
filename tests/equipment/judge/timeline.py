"""The lives of objects, put together from everything that was seen of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from equipment.fault_proxy import Event, Exchange

Document = dict[str, Any]


@dataclass(frozen=True)
class State:
    """An object as it was from one resourceVersion until its next."""

    version: int
    document: Document


@dataclass
class Life:
    """One object from its creation to its end: all that is known, in the order of resourceVersions."""

    uid: str
    kind: str
    namespace: str
    name: str
    states: list[State] = field(default_factory=list)
    gone: bool = False
    gone_at: int | None = None

    @property
    def begin(self) -> int:
        return self.states[0].version

    @property
    def last(self) -> Document:
        return self.states[-1].document

    @property
    def end(self) -> float:
        """The last version at which it is known to have lived."""
        if not self.gone:
            return float("inf")
        return self.gone_at if self.gone_at is not None else self.states[-1].version

    def overlaps(self, other: Life) -> bool:
        """Whether both lived at some version."""
        return self.begin <= other.end and other.begin <= self.end

    def annotation(self, name: str) -> list[tuple[int, str]]:
        """Each value that an annotation took, "" for none, with the version from which it had it."""
        values: list[tuple[int, str]] = []
        for state in self.states:
            value = marks(state.document).get(name, "")
            if not values or values[-1][1] != value:
                values.append((state.version, value))
        return values

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name} (uid {self.uid})"


class Timeline:
    """Every object that was ever seen, by UID."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}

    def of_kind(self, kind: str) -> list[Life]:
        return [life for life in self.lives.values() if life.kind == kind]

    def see(self, document: Document) -> Life:
        """Takes in an object as it was at its resourceVersion."""
        metadata = document["metadata"]
        life = self.lives.setdefault(
            metadata["uid"],
            Life(metadata["uid"], document.get("kind", ""), metadata.get("namespace", ""), metadata["name"]),
        )
        state = State(int(metadata["resourceVersion"]), document)
        if all(known.version != state.version for known in life.states):
            insort(life.states, state, key=lambda known: known.version)
        return life

    def see_exchange(self, exchange: Exchange) -> None:
        """Takes in what the server answered to a write."""
        if not exchange.applied or exchange.call.subresource not in ("", "status"):
            return
        if exchange.metadata.get("uid"):
            self.see(exchange.response)
        elif exchange.call.verb == "delete" and exchange.uid in self.lives:
            self.lives[exchange.uid].gone = True

    def see_event(self, event: Event) -> None:
        """Takes in what a watch delivered."""
        if event["type"] in ("ADDED", "MODIFIED"):
            self.see(event["object"])
        elif event["type"] == "DELETED":
            life = self.lives.get(event["object"]["metadata"]["uid"]) or self.see(event["object"])
            life.gone, life.gone_at = True, int(event["object"]["metadata"]["resourceVersion"])


def timeline(
    exchanges: Iterable[Exchange] = (),
    *,
    before: Iterable[Document] = (),
    events: Iterable[Event] = (),
    after: Iterable[Document] | None = None,
) -> Timeline:
    """The lives seen in a history of writes, a watch, and listings at its beginning and end.

    A listing `after` must hold all objects of the kinds to be judged: what is not in it is gone.
    """
    seen = Timeline()
    for document in before:
        seen.see(document)
    for exchange in exchanges:
        seen.see_exchange(exchange)
    for event in events:
        seen.see_event(event)
    if after is not None:
        living = {seen.see(document).uid for document in after}
        for life in seen.lives.values():
            life.gone = life.uid not in living
    return seen


def marks(document: Document) -> dict[str, str]:
    """An object's annotations."""
    return (document.get("metadata") or {}).get("annotations") or {}


def phase(document: Document) -> str:
    return str((document.get("status") or {}).get("phase") or "")
