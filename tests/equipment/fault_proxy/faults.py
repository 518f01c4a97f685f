"""Faults that are in force: what a test holds in its hand after it scripted one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from equipment.fault_proxy.history import Exchange, History
from equipment.fault_proxy.passage import Action, Answer, ConnectionLost, Forward, Passage, Reply
from equipment.fault_proxy.rule import Rule
from equipment.fault_proxy.stream import WatchStream

DEADLINE = 60.0


class Board(Protocol):
    """Where faults are kept: the proxy, as they see it."""

    history: History
    faults: list[Fault]

    @property
    def open_streams(self) -> list[WatchStream]: ...
    def spawn(self, work: Coroutine[Any, Any, object]) -> None: ...


class Fault:
    """Happens to the calls that its rule picks, until it is removed."""

    def __init__(self, board: Board, rule: Rule, words: str, action: Action) -> None:
        self.rule = rule
        self.words = words
        self.hits: list[Exchange] = []
        self._board = board
        self._action = action
        self._undo: list[Callable[[], None]] = []

    def place(self) -> None:
        self._board.faults.append(self)

    def remove(self) -> None:
        """Later calls pass untouched, and what still stands of this fault is undone."""
        if self in self._board.faults:
            self._board.faults.remove(self)
        for undo in self._undo:
            undo()
        self._undo.clear()

    def on_removal(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    async def happened(self, times: int = 1, *, within: float = DEADLINE) -> list[Exchange]:
        """Waits until it has happened that often; returns what it happened to."""
        await self._board.history.changes.expect(
            lambda: len(self.hits) >= times,
            within=within,
            what=lambda: f"{self} happened {len(self.hits)} times, not {times}; trace: {self._board.history.trace}",
        )
        return self.hits

    def note(self, exchange: Exchange) -> None:
        self.hits.append(exchange)
        self._board.history.note(exchange, self.words)

    async def act(self, passage: Passage, forward: Forward) -> Answer:
        self.note(passage.exchange)
        return await self._action(passage, forward)

    def __str__(self) -> str:
        return f"{self.words} on {self.rule.match}"


@dataclass(eq=False)
class _Ticket:
    """One held request, and the decision about it: go on, or an answer in its place."""

    exchange: Exchange
    decision: asyncio.Future[Reply | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    finished: bool = False


class Held(Fault):
    """Requests that wait for the test, before the server sees them or before the client sees the answer."""

    def __init__(self, board: Board, rule: Rule, *, after: bool, early_answer: int | None = None) -> None:
        words = "response held" if after else "request held"
        if early_answer:
            words = f"client told {early_answer}, request held"
        super().__init__(board, rule, words, self._hold)
        self._after = after
        self._early_answer = early_answer
        self._tickets: list[_Ticket] = []
        self.on_removal(self.let_go)

    async def arrived(self, count: int = 1, *, within: float = DEADLINE) -> list[Exchange]:
        """Waits until that many requests have come as far as they are held; returns them."""
        await self._board.history.changes.expect(
            lambda: len(self._tickets) >= count,
            within=within,
            what=lambda: f"{self}: {len(self._tickets)} arrived, not {count}; trace: {self._board.history.trace}",
        )
        return [ticket.exchange for ticket in self._tickets]

    def release(self) -> None:
        """Lets all go on, and holds no later ones."""
        self.remove()

    def let_go(self) -> None:
        """Lets those that are held go on; later ones are held still."""
        for ticket in self._waiting():
            ticket.decision.set_result(None)

    def drop(self) -> None:
        """Resets the connections of those that are held; the server never sees the requests held before it."""
        for ticket in self._waiting():
            ticket.decision.set_exception(ConnectionLost("dropped while held"))

    def answer(self, status: int, reason: str = "") -> None:
        """Answers those that are held with a failure of the test's choice."""
        for ticket in self._waiting():
            ticket.decision.set_result(Reply.made_up(ticket.exchange, status, reason=reason))

    async def finished(self, *, within: float = DEADLINE) -> list[Exchange]:
        """Waits until all that arrived have had their answer from the server; returns them."""
        await self._board.history.changes.expect(
            lambda: all(ticket.finished for ticket in self._tickets),
            within=within,
            what=lambda: f"{self}: {sum(not ticket.finished for ticket in self._tickets)} are not finished",
        )
        return [ticket.exchange for ticket in self._tickets]

    def _waiting(self) -> list[_Ticket]:
        return [ticket for ticket in self._tickets if not ticket.decision.done()]

    async def _hold(self, passage: Passage, forward: Forward) -> Answer:
        if self._early_answer is not None:
            self._board.spawn(self._pass(passage, forward))
            return Reply.made_up(passage.exchange, self._early_answer)
        return await self._pass(passage, forward)

    async def _pass(self, passage: Passage, forward: Forward) -> Answer:
        answer = await forward(passage) if self._after else None
        ticket = _Ticket(passage.exchange)
        self._tickets.append(ticket)
        self._board.history.changes.notify()
        try:
            decided = await ticket.decision
            return decided or answer or await forward(passage)
        finally:
            ticket.finished = True
            self._board.history.changes.notify()


class Frozen(Fault):
    """Watches that deliver nothing, though their connections stay open."""

    def thaw(self) -> None:
        """Lets them go on, and freezes no later ones."""
        self.remove()
