"""What a server answered, and where two answers differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kube.differential.bar import Bar
from kube.differential.call import Call, Json
from kube.differential.failures import ours_instead
from kube.differential.masking import Names, masked


@dataclass
class Answer:
    """One server's answer to one call; `events` for a watch."""

    names: Names
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


def differences(call: Call, left: Answer, right: Answer, bar: Bar = Bar.EXACT) -> list[Difference]:
    """Every place in which the answers differ after masking; of an error the code, reason and details count."""
    if bar is Bar.STORED and left.code == 422 and not right.failed:
        return []
    if left.code == 500:
        return _failed(left, right)
    if left.code != right.code:
        return [Difference("code", left.brief(), right.brief())]
    if bar is not Bar.EXACT:
        return list(_compared("reason", *(side.body.get("reason") for side in (left, right)))) if left.failed else []
    found = list(_compared("content type", left.content, right.content))
    found += _compared("warnings", _about_fields(left), _about_fields(right))
    if left.failed:
        return found + list(_errors(call, left, right))
    if left.events is not None or right.events is not None:
        return found + list(_compared("events", masked(left.events, left.names), masked(right.events, right.names)))
    return found + list(_compared("", masked(left.body, left.names), masked(right.body, right.names)))


def _about_fields(answer: Answer) -> list[str]:
    """Warnings of unknown and repeated fields: the embedded server gives no other."""
    return [text for text in answer.warnings if text.startswith(("unknown field ", "duplicate field "))]


def causes_of(status: Json) -> list[Json]:
    return (status.get("details") or {}).get("causes") or []


def _errors(call: Call, left: Answer, right: Answer) -> Iterator[Difference]:
    if not isinstance(left.body, dict) or not isinstance(right.body, dict):
        yield from _compared("body", left.body, right.body)
        return
    for name in ("kind", "apiVersion", "status", "reason", "code"):
        yield from _compared(name, left.body.get(name), right.body.get(name))
    yield from _compared("details", _details(call, left), _details(call, right))
    yield from _compared("causes", _causes(left), _causes(right))
    if call.words:
        yield from _compared("message", *(masked(side.body.get("message"), side.names) for side in (left, right)))


def _failed(left: Answer, right: Answer) -> list[Difference]:
    """The real server calls some bad requests its own fault: for each such failure it is said what ours answers."""
    message = left.body.get("message", "") if isinstance(left.body, dict) else str(left.body)
    wanted = ours_instead(message)
    given = right.body.get("reason", "") if isinstance(right.body, dict) else ""
    if (right.code, given) in wanted:
        return []
    return [Difference("code", f"{left.brief()}, in place of which: {wanted or 'unknown'}", right.brief())]


def _details(call: Call, answer: Answer) -> Json:
    """What an error says of its object; its causes are compared apart."""
    details = answer.body.get("details", ABSENT)
    if not isinstance(details, dict):
        return details
    sent = call.body.get("metadata") if isinstance(call.body, dict) else None
    prefix = sent.get("generateName") if isinstance(sent, dict) else None
    known = masked({**details, "generateName": prefix} if isinstance(prefix, str) else details, answer.names)
    return {key: value for key, value in known.items() if key not in ("causes", "generateName")}


def _causes(answer: Answer) -> list[tuple[str, str]]:
    """Sorted, as some checks go through a Go map in random order; once each, as a patch is validated several times."""
    found = masked(causes_of(answer.body), answer.names)
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
