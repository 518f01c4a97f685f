"""A request on its way through the proxy, and the two kinds of answer it can get."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from multidict import CIMultiDict

from equipment.fault_proxy.call import Call, decode_body
from equipment.fault_proxy.history import Exchange, History
from equipment.fault_proxy.status import failure

if TYPE_CHECKING:
    from equipment.fault_proxy.stream import WatchStream


class ConnectionLost(Exception):
    """The client gets no answer: its connection is reset."""


@dataclass(frozen=True)
class Passage:
    """One request with everything that is needed to send it, once or several times."""

    call: Call
    raw_path: str
    headers: CIMultiDict[str]
    body: bytes
    exchange: Exchange
    after_delivery: list[Callable[[], None]] = field(default_factory=list)

    def again(self, history: History) -> Passage:
        """The same request as a second one, with its own place in the history."""
        return replace(self, exchange=history.begin(self.call, self.exchange.proxy))

    def with_body(self, document: Any) -> Passage:
        """The same request with another document in it."""
        return replace(self, body=msgspec.json.encode(document), call=replace(self.call, body=document))


@dataclass(frozen=True)
class Reply:
    """A complete answer."""

    status: int
    headers: CIMultiDict[str]
    body: bytes
    exchange: Exchange

    @classmethod
    def made_up(
        cls, exchange: Exchange, status: int, document: Any = None, *, reason: str = "", headers: Any = ()
    ) -> Reply:
        """An answer that the server never gave: a Status of failure, unless a document is given."""
        empty = cls(status, CIMultiDict(headers), b"", exchange)
        return empty.with_document(failure(status, reason) if document is None else document)

    def document(self) -> Any:
        return decode_body(self.body, self.headers.get("Content-Type", ""))

    def with_document(self, document: Any, status: int | None = None) -> Reply:
        """The same answer with another document, and another status when given."""
        headers = CIMultiDict(self.headers)
        headers["Content-Type"] = "application/json"
        return replace(self, status=status or self.status, headers=headers, body=msgspec.json.encode(document))


Answer: TypeAlias = "Reply | WatchStream"
Forward: TypeAlias = Callable[[Passage], Awaitable[Answer]]
Action: TypeAlias = Callable[[Passage, Forward], Awaitable[Answer]]
