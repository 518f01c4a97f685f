"""JetStream in memory: streams, conditional publishes, reads, and pull consumers with AckWait. As the real one answers.

Only what our code uses. A stale acknowledgement counts, as with the real broker: it goes by the message, not by the
delivery.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
WORKERS = ("__n", "__h")  # how the names of the consumers end that workers share
NO_MESSAGES, REQUEST_TIMEOUT = "404 No Messages", "408 Request Timeout"

Deliver = Callable[[str, str, bytes, str], None]
"""Sends (subject, reply, data, header block) to whoever subscribed to the subject."""


def matches(pattern: str, subject: str) -> bool:
    wanted, has = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(has) > index
        if index >= len(has) or token not in ("*", has[index]):
            return False
    return len(wanted) == len(has)


def header_block(status: str = "", headers: Mapping[str, str] | None = None) -> str:
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return f"NATS/1.0{' ' + status if status else ''}\r\n{lines}\r\n"


@dataclass(frozen=True)
class Stored:
    sequence: int
    subject: str
    headers: Mapping[str, str]
    data: bytes
    at: datetime

    @property
    def time(self) -> str:
        return self.at.isoformat().replace("+00:00", "Z")


@dataclass
class Stream:
    name: str
    subjects: tuple[str, ...]
    messages: dict[int, Stored] = field(default_factory=dict)
    sequence: int = 0
    full: bool = False

    def last(self, pattern: str) -> Stored | None:
        found = [each for each in self.messages.values() if matches(pattern, each.subject)]
        return found[-1] if found else None


@dataclass
class Pull:
    inbox: str
    left: int
    until: float


@dataclass
class Consumer:
    """A durable pull consumer, explicit acknowledgements, delivery without limit."""

    name: str
    stream: Stream
    filter: str
    ack_wait: float
    next: int = 1
    delivered: dict[int, int] = field(default_factory=dict)
    pending: dict[int, float] = field(default_factory=dict)
    """By sequence: until when the broker waits for its acknowledgement."""
    acked: set[int] = field(default_factory=set)
    again: deque[int] = field(default_factory=deque)
    pulls: deque[Pull] = field(default_factory=deque)
    count: int = 0

    def take(self) -> Stored | None:
        """The next message: what must be delivered again comes first."""
        while self.again:
            sequence = self.again.popleft()
            if sequence in self.pending and sequence in self.stream.messages:
                return self.stream.messages[sequence]
        while self.next <= self.stream.sequence:
            sequence, self.next = self.next, self.next + 1
            message = self.stream.messages.get(sequence)
            if message is not None and matches(self.filter, message.subject):
                return message
        return None


@dataclass
class Follower:
    """An ephemeral push consumer without acknowledgements and bodies."""

    stream: Stream
    inbox: str
    next: int
    count: int = 0


class JetStream:
    """The server. `handle` takes each publish of a client, in the order of arrival."""

    def __init__(self, now: Callable[[], datetime], deliver: Deliver, listens: Callable[[str], bool]) -> None:
        self.streams: dict[str, Stream] = {}
        self.consumers: dict[tuple[str, str], Consumer] = {}
        self.followers: list[Follower] = []
        self._now, self._deliver, self._listens = now, deliver, listens
        self.observers: list[Callable[[str, Stored], None]] = []
        """Told of each message that is stored, and that is delivered to or acknowledged by a worker: the judge."""

    def add_stream(self, name: str, *subjects: str) -> Stream:
        return self.streams.setdefault(name, Stream(name, subjects))

    def add_consumer(self, stream: str, name: str, pattern: str, ack_wait: float) -> Consumer:
        made = Consumer(name, self.streams[stream], pattern, ack_wait)
        return self.consumers.setdefault((stream, name), made)

    def forget_pulls(self) -> None:
        """As after a restart: what is on disk stays, the requests that waited are gone."""
        for consumer in self.consumers.values():
            consumer.pulls.clear()

    def handle(self, subject: str, reply: str, data: bytes, headers: Mapping[str, str]) -> bool:
        """Whether the subject is JetStream's."""
        match subject.split(".", 5):
            case ["$JS", "API", "STREAM", "MSG", "GET", stream]:
                self._get(self.streams[stream], reply, data)
            case ["$JS", "API", "DIRECT", "GET", stream, pattern]:
                self._direct(self.streams[stream], reply, pattern)
            case ["$JS", "API", "CONSUMER", "MSG", "NEXT", rest]:
                self._next(self.consumers[*_pair(rest)], reply, data)
            case ["$JS", "API", "STREAM", "INFO", stream]:
                state = {"last_seq": self.streams[stream].sequence}
                self._answer(reply, {"created": "2026-01-01T00:00:00Z", "state": state})
            case ["$JS", "API", "CONSUMER", "CREATE", *_]:
                self._create(reply, json.loads(data))
            case ["$JS", "API", "CONSUMER", "INFO", stream, consumer]:
                self._info(self.consumers.get((stream, consumer)), reply)
            case ["$JS", "ACK", stream, consumer, _, rest]:
                self._acknowledge(self.consumers[stream, consumer], int(rest.split(".")[0]), reply, data)
            case ["$JS", *_]:
                raise NotImplementedError(subject)
            case _:
                stream_of = next((each for each in self.streams.values() if _holds(each.subjects, subject)), None)
                if stream_of is None:
                    return False
                self._publish(stream_of, subject, reply, data, headers)
        return True

    def _publish(self, stream: Stream, subject: str, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        if (expected := headers.get(EXPECTED_LAST)) is not None:
            last = stream.last(headers.get(EXPECTED_SUBJECT, subject))
            if (last.sequence if last is not None else 0) != int(expected):
                self._error(reply, 400, 10071, "wrong last sequence", stream=stream.name)
                return
        if stream.full:
            self._error(reply, 400, 10077, "maximum bytes exceeded", stream=stream.name)
            return
        stream.sequence += 1
        message = Stored(stream.sequence, subject, dict(headers), data, self._now())
        stream.messages[stream.sequence] = message
        self._tell("stored", message)
        self._answer(reply, {"stream": stream.name, "seq": stream.sequence})
        for consumer in self._consumers_of(stream):
            self._serve(consumer)
        for follower in self.followers:
            self._push(follower)

    def _get(self, stream: Stream, reply: str, data: bytes) -> None:
        found = stream.last(json.loads(data)["last_by_subj"])
        if found is None:
            self._error(reply, 404, 10037, "no message found")
            return
        raw = {
            "subject": found.subject,
            "seq": found.sequence,
            "time": found.time,
            "data": b64encode(found.data).decode(),
            "hdrs": b64encode(header_block(headers=found.headers).encode()).decode(),
        }
        self._answer(reply, {"message": raw})

    def _direct(self, stream: Stream, reply: str, pattern: str) -> None:
        found = stream.last(pattern)
        if found is None:
            self._deliver(reply, "", b"", header_block("404 Message Not Found"))
            return
        where = {"Nats-Stream": stream.name, "Nats-Subject": found.subject, "Nats-Sequence": str(found.sequence)}
        block = header_block(headers={**found.headers, **where, "Nats-Time-Stamp": found.time})
        self._deliver(reply, "", found.data, block)

    def _info(self, consumer: Consumer | None, reply: str) -> None:
        if consumer is None:
            self._error(reply, 404, 10014, "consumer not found")
            return
        config = {"durable_name": consumer.name, "ack_wait": int(consumer.ack_wait * 1e9), "ack_policy": "explicit"}
        ends = {"consumer_seq": consumer.count, "stream_seq": consumer.next - 1}
        self._answer(
            reply,
            {
                "stream_name": consumer.stream.name,
                "name": consumer.name,
                "created": "2026-01-01T00:00:00Z",
                "config": {**config, "deliver_policy": "all", "filter_subject": consumer.filter},
                "delivered": ends,
                "ack_floor": ends,
                "num_ack_pending": len(consumer.pending),
                "num_redelivered": 0,
                "num_waiting": len(consumer.pulls),
                "num_pending": 0,
            },
        )

    # Consumers.

    def _create(self, reply: str, request: Mapping[str, Any]) -> None:
        stream, config = request["stream_name"], request["config"]
        if "deliver_subject" in config:
            self._follow(self.streams[stream], reply, config)
            return
        made = self.add_consumer(stream, config["name"], config.get("filter_subject", ">"), config["ack_wait"] / 1e9)
        self._info(made, reply)

    def _follow(self, stream: Stream, reply: str, config: Mapping[str, Any]) -> None:
        follower = Follower(stream, config["deliver_subject"], config["opt_start_seq"])
        self.followers.append(follower)
        left = sum(number >= follower.next for number in stream.messages)
        self._answer(reply, {"stream_name": stream.name, "name": "ephemeral", "num_pending": left})
        self._push(follower)
        self._beat(follower)

    def _push(self, follower: Follower) -> None:
        stream = follower.stream
        while follower.next <= stream.sequence:
            message, follower.next = stream.messages.get(follower.next), follower.next + 1
            if message is not None:
                follower.count += 1
                left = sum(number >= follower.next for number in stream.messages)
                stamp = int(message.at.timestamp() * 1e9)
                place = f"$JS.ACK.{stream.name}.ephemeral.1.{message.sequence}.{follower.count}.{stamp}.{left}"
                self._deliver_as(follower.inbox, message.subject, place, b"", header_block(headers=message.headers))

    def _beat(self, follower: Follower) -> None:
        """The heartbeat of an idle consumer. The consumer is gone when nobody listens."""
        if not self._listens(follower.inbox):
            self.followers.remove(follower)
            return
        block = header_block("100 Idle Heartbeat", {"Nats-Last-Consumer": str(follower.count)})
        self._deliver(follower.inbox, "", b"", block)
        asyncio.get_running_loop().call_later(1.0, self._beat, follower)

    def _next(self, consumer: Consumer, inbox: str, data: bytes) -> None:
        asked = json.loads(data) if data.startswith(b"{") else {"batch": int(data or b"1")}
        loop = asyncio.get_running_loop()
        seconds = asked.get("expires", 0) / 1e9
        pull = Pull(inbox, asked.get("batch", 1), loop.time() + seconds if seconds else float("inf"))
        consumer.pulls.append(pull)
        self._serve(consumer)
        if not pull.left:
            return
        if asked.get("no_wait"):
            consumer.pulls.remove(pull)
            self._deliver(inbox, "", b"", header_block(NO_MESSAGES))
        elif seconds:
            loop.call_at(pull.until, self._expire, consumer, pull)

    def _expire(self, consumer: Consumer, pull: Pull) -> None:
        if pull in consumer.pulls:
            consumer.pulls.remove(pull)
            self._deliver(pull.inbox, "", b"", header_block(REQUEST_TIMEOUT))

    def _serve(self, consumer: Consumer) -> None:
        while consumer.pulls and (message := consumer.take()) is not None:
            pull = consumer.pulls[0]
            pull.left -= 1
            if not pull.left:
                consumer.pulls.popleft()
            times = consumer.delivered[message.sequence] = consumer.delivered.get(message.sequence, 0) + 1
            consumer.count += 1
            self._wait_for(consumer, message.sequence, consumer.ack_wait)
            self._tell("delivered", message, consumer)
            place = f"{consumer.stream.name}.{consumer.name}.{times}.{message.sequence}.{consumer.count}"
            stamp = int(message.at.timestamp() * 1e9)
            block = header_block(headers=message.headers)
            self._deliver_as(pull.inbox, message.subject, f"$JS.ACK.{place}.{stamp}.0", message.data, block)

    def _wait_for(self, consumer: Consumer, sequence: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = consumer.pending[sequence] = loop.time() + seconds
        loop.call_at(until, self._overdue, consumer, sequence, until)

    def _overdue(self, consumer: Consumer, sequence: int, until: float) -> None:
        if consumer.pending.get(sequence) == until:
            consumer.again.append(sequence)
            self._serve(consumer)

    def _acknowledge(self, consumer: Consumer, sequence: int, reply: str, data: bytes) -> None:
        if sequence in consumer.pending:
            if data.startswith(b"+WPI"):
                self._wait_for(consumer, sequence, consumer.ack_wait)
            elif data.startswith(b"-NAK"):
                given = json.loads(data[5:]) if len(data) > 5 else {}
                self._wait_for(consumer, sequence, given.get("delay", 0) / 1e9)
            else:
                del consumer.pending[sequence]
                consumer.acked.add(sequence)
                self._tell("acked", consumer.stream.messages.get(sequence), consumer)
        if reply:
            self._deliver(reply, "", b"", "")

    def _consumers_of(self, stream: Stream) -> Iterable[Consumer]:
        return [each for each in self.consumers.values() if each.stream is stream]

    def _deliver_as(self, inbox: str, subject: str, reply: str, data: bytes, block: str) -> None:
        """A pulled message goes to an inbox and shows the subject that it was stored under."""
        self._deliver(f"{inbox} {subject}", reply, data, block)

    def _tell(self, what: str, about: Stored | None, consumer: Consumer | None = None) -> None:
        if about is None or (consumer is not None and not consumer.name.endswith(WORKERS)):
            return
        for observer in self.observers:
            observer(what, about)

    def _answer(self, reply: str, document: Mapping[str, Any]) -> None:
        if reply:
            self._deliver(reply, "", json.dumps(document).encode(), "")

    def _error(self, reply: str, code: int, err_code: int, words: str, **more: str) -> None:
        self._answer(reply, {"error": {"code": code, "err_code": err_code, "description": words}, **more})


def _holds(patterns: Iterable[str], subject: str) -> bool:
    return any(matches(each, subject) for each in patterns)


def _pair(rest: str) -> tuple[str, str]:
    stream, _, consumer = rest.partition(".")
    return stream, consumer
