"""What a server answered, and where two answers differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kube.differential.call import Call, Json
from kube.differential.masking import masked


@dataclass
class Answer:
    """One server's answer to one call; `events` for a watch."""

    namespace: str
    code: int = 0
    content: str = ""
    body: Json = None
    warnings: list[str] = field(default_factory=list)
    events: list[Json] | None = None

    @property
    def failed(self) -> bool:
        return self.code >= 400

    def brief(self) -> str:
        """The answer in one line, for a list of failures."""
        if self.failed and isinstance(self.body, dict):
            causes = [(cause.get("reason"), cause.get("field")) for cause in causes_of(self.body)]
            return f"{self.code} {self.body.get('reason')} {causes or ''} {self.body.get('message')}".strip()
        return f"{self.code} {self.content}"


@dataclass(frozen=True)
class Difference:
    """One place in which two answers differ."""

    field: str
    left: Json
    right: Json

    def __str__(self) -> str:
        return f"{self.field}: {self.left!r} / {self.right!r}"


ABSENT = "<absent>"


def differences(call: Call, left: Answer, right: Answer) -> list[Difference]:
    """Every place in which the answers differ after masking; of an error the code, reason and causes count."""
    if left.code == 500:  # the real server calls some bad requests its own fault; ours never does
        return [] if 400 <= right.code < 500 else [Difference("code", "any 4xx", right.brief())]
    if left.code != right.code:
        return [Difference("code", left.brief(), right.brief())]
    found = list(_compared("content type", left.content, right.content))
    found += _compared("warnings", masked(left.warnings, left.namespace), masked(right.warnings, right.namespace))
    if left.failed:
        return found + list(_errors(call, left, right))
    if left.events is not None or right.events is not None:
        return found + list(
            _compared("events", masked(left.events, left.namespace), masked(right.events, right.namespace))
        )
    return found + list(_compared("", masked(left.body, left.namespace), masked(right.body, right.namespace)))


def causes_of(status: Json) -> list[Json]:
    return (status.get("details") or {}).get("causes") or []


def _errors(call: Call, left: Answer, right: Answer) -> Iterator[Difference]:
    if not isinstance(left.body, dict) or not isinstance(right.body, dict):
        yield from _compared("body", left.body, right.body)
        return
    for name in ("kind", "apiVersion", "status", "reason", "code"):
        yield from _compared(name, left.body.get(name), right.body.get(name))
    yield from _compared("causes", _causes(left), _causes(right))
    if call.words:
        yield from _compared("message", *(masked(side.body.get("message"), side.namespace) for side in (left, right)))


def _causes(answer: Answer) -> list[tuple[str, str]]:
    """Sorted, as some checks go through a Go map in random order; once each, as a patch is validated several times."""
    found = masked(causes_of(answer.body), answer.namespace)
    return sorted({(cause.get("field", ""), cause.get("reason", "")) for cause in found})


def _compared(place: str, left: Json, right: Json) -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            inner = f"{place}.{key}" if place else key
            yield from _compared(inner, left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _compared(f"{place}[{index}]", one, other)
    elif left != right or type(left) is not type(right):
        yield Difference(place, left, right)
