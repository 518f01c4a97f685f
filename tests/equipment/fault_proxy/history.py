"""What went through: each request, what the server made of it and what the client got to see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipment.fault_proxy.call import Call
from equipment.fault_proxy.matching import Match
from equipment.waiting import Changes


@dataclass
class Exchange:
    """One request as it passed.

    `status` and `response` are the server's, and stay None when it never saw the request or its answer was lost on the
    way to the proxy; `answered` is the status that the client got, None when it only lost its connection.
    """

    sequence: int
    call: Call
    proxy: str = ""
    sent: bool = False
    status: int | None = None
    response: Any = None
    answered: int | None = None
    faults: list[str] = field(default_factory=list)
    done: bool = False

    @property
    def applied(self) -> bool:
        """Whether the server is known to have stored it."""
        return self.call.mutating and not self.call.dry_run and self.status is not None and self.status < 300

    @property
    def delivered(self) -> bool:
        """Whether the client got the server's own answer."""
        return self.status is not None and self.answered == self.status

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the object that the server answered with; empty for a Status or a list."""
        if not isinstance(self.response, dict) or self.response.get("kind") == "Status":
            return {}
        return self.response.get("metadata") or {}

    @property
    def name(self) -> str:
        """The object's name, as the server chose it for a generateName."""
        return self.call.name or str(self.metadata.get("name", ""))

    @property
    def uid(self) -> str:
        if isinstance(self.response, dict) and self.response.get("kind") == "Status":
            return str((self.response.get("details") or {}).get("uid", ""))
        return str(self.metadata.get("uid", ""))

    @property
    def resource_version(self) -> str:
        return str(self.metadata.get("resourceVersion", ""))

    def __str__(self) -> str:
        server = (
            f"server {self.status}" if self.status else "server did not answer" if self.sent else "server not asked"
        )
        client = f"client {self.answered}" if self.answered else "client got nothing"
        why = f" [{'; '.join(self.faults)}]" if self.faults else ""
        return f"#{self.sequence} {self.call}: {server}, {client}{why}"

    def to_json(self) -> str:
        """One line with everything, for a file that outlives the test."""
        call = {key: value for key, value in vars(self.call).items() if value}
        rest = {key: value for key, value in vars(self).items() if key != "call" and value}
        return json.dumps({**rest, "call": call}, default=str)


class History:
    """Exchanges in the order in which the requests arrived; several proxies may share one."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.trace: list[str] = []
        self.changes = Changes()

    def begin(self, call: Call, proxy: str) -> Exchange:
        exchange = Exchange(len(self.exchanges) + 1, call, proxy)
        self.exchanges.append(exchange)
        self.changes.notify()
        return exchange

    def note(self, exchange: Exchange, what: str) -> None:
        """Records that a fault was done to this exchange."""
        exchange.faults.append(what)
        self.remark(f"#{exchange.sequence} {exchange.call}: {what}")

    def remark(self, line: str) -> None:
        self.trace.append(line)
        self.changes.notify()

    def select(self, match: Match, since: int = 0) -> Iterator[Exchange]:
        """Those that match, after the mark `since`."""
        return (exchange for exchange in self.exchanges[since:] if match(exchange.call))

    def write_lines(self, path: Path) -> None:
        """Exports everything as JSON lines."""
        path.write_text("".join(exchange.to_json() + "\n" for exchange in self.exchanges))
