"""The words in which a test says what happens to the calls that it picked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from equipment.fault_proxy.faults import Board, Fault, Frozen, Held
from equipment.fault_proxy.matching import Event
from equipment.fault_proxy.passage import Action, Answer, ConnectionLost, Forward, Passage, Reply
from equipment.fault_proxy.rule import Rule
from equipment.fault_proxy.stream import Transform, WatchStream

Items = list[dict[str, Any]]


@dataclass(frozen=True)
class Script:
    """What `proxy.on(...)` returns: each method puts one fault in force, from the next call that matches.

    Faults on the same call wrap each other, the first one scripted outermost. Faults of watches that are scripted
    without `nth` are done to the watches that are open, too.
    """

    board: Board
    rule: Rule

    def drop_request(self) -> Fault:
        """The server never sees it; the client's connection is reset."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            raise ConnectionLost("request dropped")

        return self._place("request dropped", action)

    def drop_response(self) -> Fault:
        """The server does it; the client's connection is reset instead of an answer."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            answer = await forward(passage)
            if isinstance(answer, WatchStream):
                answer.close()
            raise ConnectionLost("response dropped")

        return self._place("response dropped", action)

    def hold(self, when: Literal["before", "after"] = "before") -> Held:
        """Keeps it until the test lets go: before the server sees it, or after the server did it."""
        held = Held(self.board, self.rule, after=when == "after")
        held.place()
        return held

    def postpone(self, status: int = 504) -> Held:
        """Tells the client a failure at once, and keeps the request: the server does it when the test lets go."""
        held = Held(self.board, self.rule, after=False, early_answer=status)
        held.place()
        return held

    def delay(self, seconds: float) -> Fault:
        """The server sees it so much later."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            await asyncio.sleep(seconds)
            return await forward(passage)

        return self._place(f"delayed by {seconds:g} s", action)

    def answer(
        self, status: int, body: Any = None, *, reason: str = "", headers: Mapping[str, str] | None = None
    ) -> Fault:
        """Answers without asking the server: with `body`, or with a Status for `status` and `reason`."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            return Reply.made_up(passage.exchange, status, body, reason=reason, headers=headers or {})

        return self._place(f"answered {status} {reason}".rstrip() + " without the server", action)

    def rewrite_status(self, status: int, *, reason: str = "", headers: Mapping[str, str] | None = None) -> Fault:
        """The server does it; the client is told this failure."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            answer = await forward(passage)
            if isinstance(answer, WatchStream):
                answer.close()
            return Reply.made_up(answer.exchange, status, reason=reason, headers=headers or {})

        return self._place(f"status rewritten to {status}", action)

    def rewrite_request(self, change: Callable[[Any], Any]) -> Fault:
        """The server gets what `change` makes of the document sent."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            return await forward(passage.with_body(change(passage.call.body)))

        return self._place("request rewritten", action)

    def rewrite_response(self, change: Callable[[Any], Any]) -> Fault:
        """The client gets what `change` makes of the document answered."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            answer = await forward(passage)
            return answer if isinstance(answer, WatchStream) else answer.with_document(change(answer.document()))

        return self._place("response rewritten", action)

    def rewrite_list(self, change: Callable[[Items], Items]) -> Fault:
        """The client gets what `change` makes of the items listed."""

        def change_items(document: dict[str, Any]) -> dict[str, Any]:
            return {**document, "items": change(document["items"])} if "items" in document else document

        return self.rewrite_response(change_items)

    def duplicate(self, answer: Literal["first", "second"] = "first") -> Fault:
        """The server gets it twice, one after the other; the client gets the first or the second answer."""

        async def action(passage: Passage, forward: Forward) -> Answer:
            first = await forward(passage)
            second = await forward(passage.again(self.board.history))
            return first if answer == "first" else second

        return self._place(f"sent twice, answered with the {answer}", action)

    # Watches.

    def cut(self, after_events: int = 0) -> Fault:
        """Resets the connection, once so many events have been delivered."""
        return self._stream(
            f"watch cut after {after_events} events", lambda stream: stream.after(after_events, stream.cut)
        )

    def end(self, after_events: int = 0) -> Fault:
        """Ends the watch cleanly, once so many events have been delivered."""
        return self._stream(
            f"watch ended after {after_events} events", lambda stream: stream.after(after_events, stream.end)
        )

    def freeze(self, after_events: int = 0, *, discard: bool = False) -> Frozen:
        """Delivers nothing more, with the connection open; events are kept until `thaw`, or discarded."""

        def attach(stream: WatchStream) -> None:
            if frozen not in self.board.faults:
                return  # `thaw` ran while the watch was being opened, and would not come again for this watch
            stream.after(after_events, lambda: stream.freeze(discard=discard))
            frozen.on_removal(stream.thaw)

        words = "watch frozen, events discarded" if discard else "watch frozen"
        frozen = Frozen(self.board, self.rule, words, _at_opening(attach))
        self._place_on_streams(frozen, attach)
        return frozen

    def inject(self, event: Event, after_events: int = 0) -> Fault:
        """Delivers an event that the server did not send, once so many of its own have been delivered."""
        return self._stream(
            f"{event.get('type')} injected",
            lambda stream: stream.after(after_events, lambda: stream.inject(event)),
        )

    def drop_events(self, which: Callable[[Event], bool]) -> Fault:
        """The client never sees these events."""
        return self.transform_events(lambda event: [] if which(event) else [event], "events dropped")

    def repeat_events(self, which: Callable[[Event], bool], copies: int = 2) -> Fault:
        """The client sees these events several times."""
        return self.transform_events(lambda event: [event] * (copies if which(event) else 1), "events repeated")

    def transform_events(self, transform: Transform, words: str = "events transformed") -> Fault:
        """The client sees what `transform` makes of each event: none, one or several."""

        def attach(stream: WatchStream) -> None:
            fault.on_removal(stream.transform(transform))

        fault = Fault(self.board, self.rule, words, _at_opening(attach))
        self._place_on_streams(fault, attach)
        return fault

    def _stream(self, words: str, attach: Callable[[WatchStream], None]) -> Fault:
        fault = Fault(self.board, self.rule, words, _at_opening(attach))
        self._place_on_streams(fault, attach)
        return fault

    def _place(self, words: str, action: Action) -> Fault:
        fault = Fault(self.board, self.rule, words, action)
        fault.place()
        return fault

    def _place_on_streams(self, fault: Fault, attach: Callable[[WatchStream], None]) -> None:
        fault.place()
        if self.rule.nth is None:
            for stream in self.board.open_streams:
                if self.rule.hits(stream.call):
                    fault.note(stream.exchange)
                    attach(stream)


def _at_opening(attach: Callable[[WatchStream], None]) -> Action:
    """An action that does something to a watch when the server has opened it."""

    async def action(passage: Passage, forward: Forward) -> Answer:
        answer = await forward(passage)
        if isinstance(answer, WatchStream):
            attach(answer)
        return answer

    return action
