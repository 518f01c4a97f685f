"""Histories for the judge, told object by object."""

from __future__ import annotations

import itertools
from typing import TypeVar

from equipment.builders import Builder
from equipment.builders.base import Document
from equipment.fault_proxy import Event, Exchange
from equipment.fault_proxy.call import Call
from equipment.judge import Timeline, timeline

B = TypeVar("B", bound=Builder)


class Story:
    """Writes that a server accepted one after the other, and what it holds after them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.events: list[Event] = []
        self.living: dict[str, Document] = {}
        self._versions = itertools.count(1)

    def create(self, builder: B) -> B:
        """The object as the server stored it, with UID and resourceVersion."""
        version = next(self._versions)
        return self._store("create", "ADDED", builder.with_uid(f"uid-{version}").at_version(version))

    def update(self, builder: B) -> B:
        return self._store("update", "MODIFIED", builder.at_version(next(self._versions)))

    def delete(self, builder: Builder) -> None:
        gone = builder.at_version(next(self._versions)).document()
        del self.living[builder.uid]
        self.events.append({"type": "DELETED", "object": gone})
        answer = {"kind": "Status", "status": "Success", "details": {"uid": builder.uid}}
        self.exchanges.append(self._exchange("delete", gone, answer))

    def timeline(self) -> Timeline:
        """As the proxy's history and a last listing show it."""
        return timeline(self.exchanges, after=self.living.values())

    def watched(self) -> Timeline:
        """As a watch shows it."""
        return timeline(events=self.events)

    def _store(self, verb: str, change: str, builder: B) -> B:
        document = builder.document()
        self.living[builder.uid] = document
        self.events.append({"type": change, "object": document})
        self.exchanges.append(self._exchange(verb, document, document))
        return builder

    def _exchange(self, verb: str, document: Document, answer: Document) -> Exchange:
        metadata = document["metadata"]
        resource = document["kind"].lower() + "s"
        call = Call(
            "POST", "/", verb, resource=resource, namespace=metadata.get("namespace", ""), name=metadata["name"]
        )
        status = 201 if verb == "create" else 200
        return Exchange(len(self.exchanges) + 1, call, sent=True, status=status, response=answer, answered=status)
