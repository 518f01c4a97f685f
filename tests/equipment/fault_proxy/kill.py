"""Killing a process at an exact point of its dialogue with the server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Literal

from equipment.fault_proxy.faults import DEADLINE, Board, Fault
from equipment.fault_proxy.history import Exchange
from equipment.fault_proxy.matching import Match
from equipment.fault_proxy.passage import Answer, ConnectionLost, Forward, Passage
from equipment.fault_proxy.rule import Rule
from equipment.fault_proxy.stream import WatchStream

When = Literal["before", "after", "delivered"]

WORDS: dict[When, str] = {
    "before": "killed before the server saw it",
    "after": "killed after the server did it, before its answer came",
    "delivered": "killed after its answer came",
}


class Kill(Fault):
    """Kills once, and from then on lets nothing of the dead through, until it is removed.

    A cancelled coroutine lives a few turns of the event loop longer, and so could write once more: the dead must not.
    """

    def __init__(self, board: Board, rule: Rule, victim: int | Callable[[], object], when: When, client: Match) -> None:
        super().__init__(board, rule, WORDS[when], self._kill)
        self._victim = victim
        self._when = when
        self._client = client
        self._slain = asyncio.Event()

    async def happened(self, times: int = 1, *, within: float = DEADLINE) -> list[Exchange]:
        """Waits for the death itself: the victim lives on while the server works on the write that it dies after."""
        hits = await super().happened(times, within=within)
        async with asyncio.timeout(within):
            await self._slain.wait()
        return hits

    async def _kill(self, passage: Passage, forward: Forward) -> Answer:
        if self._when == "before":
            self._slay()
            raise ConnectionLost("killed before")
        answer = await forward(passage)
        if self._when == "delivered":
            passage.after_delivery.append(self._slay)
            return answer
        if isinstance(answer, WatchStream):
            answer.close()
        self._slay()
        raise ConnectionLost("killed after")

    def _slay(self) -> None:
        silence = Fault(self._board, Rule(self._client), "dead, request dropped", _drop)
        silence.place()
        self.on_removal(silence.remove)
        if isinstance(self._victim, int):
            os.kill(self._victim, signal.SIGKILL)
        else:
            self._victim()
        self._slain.set()


async def _drop(passage: Passage, forward: Forward) -> Answer:
    raise ConnectionLost("sent by the dead")
