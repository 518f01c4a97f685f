"""Label and field selectors of list, watch and deletecollection."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gpu_runtime.local.apiserver.errors import Status, bad_request
from gpu_runtime.local.apiserver.names import label_value, qualified_name
from gpu_runtime.local.apiserver.records import Record

Labels = dict[str, str]


class Requirement(NamedTuple):
    """One term of a label selector."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


_TOKEN = re.compile(r"\s*(!=|==|=|!|>|<|\(|\)|,|[^\s!=<>(),]+)")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The terms of a label selector; 400 when it is invalid."""
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        assert found is not None
        tokens.append(found[1])
        at = found.end()
    parser = _Parser(tokens)
    try:
        return parser.selector()
    except ValueError as error:
        raise bad_request(f'unable to parse requirement: {error} (in "{text}")') from None


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def selector(self) -> tuple[Requirement, ...]:
        found = []
        while self.peek():
            found.append(self.requirement())
            mark = self.next()
            if mark not in (",", ""):
                raise ValueError(f"found '{mark}', expected: ',' or 'end of string'")
            if mark == "," and not self.peek():
                raise ValueError("found '', expected: identifier after ','")
        return tuple(found)

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.next()
            return Requirement(self.key(), "!", frozenset())
        key = self.key()
        operator = self.peek()
        if operator in (",", ""):
            return Requirement(key, "exists", frozenset())
        self.next()
        if operator in ("=", "=="):
            return Requirement(key, "in", frozenset([self.value()]))
        if operator == "!=":
            return Requirement(key, "notin", frozenset([self.value()]))
        if operator in ("in", "notin"):
            return Requirement(key, operator, self.values())
        if operator in (">", "<"):
            bound = self.value()
            if not re.fullmatch(r"-?\d+", bound):
                raise ValueError("for 'Gt', 'Lt' operators, the value must be an integer")
            return Requirement(key, operator, frozenset([bound]))
        raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def key(self) -> str:
        key = self.next()
        if not key or key in "()=,!<>":
            raise ValueError(f"found '{key}', expected: identifier")
        if wrong := qualified_name(key):
            raise ValueError(f'key: Invalid value: "{key}": {wrong[0]}')
        return key

    def value(self) -> str:
        if self.peek() in (",", ""):
            return ""
        value = self.next()
        if value in ("(", ")", "=", "==", "!=", "!", "<", ">"):
            raise ValueError(f"found '{value}', expected: identifier")
        if wrong := label_value(value):
            raise ValueError(f'values[0]: Invalid value: "{value}": {wrong[0]}')
        return value

    def values(self) -> frozenset[str]:
        if self.next() != "(":
            raise ValueError("found no '(' after in or notin")
        found: set[str] = set()
        while True:
            token = self.peek()
            if token in (",", ")"):
                found.add("")
            else:
                found.add(self.value())
            closing = self.next()
            if closing == ")":
                return frozenset(found)
            if closing != ",":
                raise ValueError(f"found '{closing}', expected: ',' or ')'")


class FieldTerm(NamedTuple):
    """One term of a field selector."""

    path: str
    equal: bool
    value: str


def parse_fields(text: str, supported: tuple[str, ...]) -> tuple[FieldTerm, ...]:
    """The terms of a field selector over the fields that the kind supports; 400 for others."""
    found = []
    for term in filter(None, text.split(",")):
        parts = re.fullmatch(r"([^=!]*)(==|!=|=)(.*)", term)
        if parts is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if parts[1] not in supported and parts[1] not in ("metadata.name", "metadata.namespace"):
            raise _unsupported(parts[1])
        found.append(FieldTerm(parts[1], parts[2] != "!=", parts[3]))
    return tuple(found)


def _unsupported(path: str) -> Status:
    return bad_request(f"field label not supported: {path}")


Matcher = Callable[[Record], bool]


def matcher(labels: str, fields: str, supported: tuple[str, ...]) -> Matcher | None:
    """A function that tests a record; None when every record matches."""
    requirements = parse_labels(labels)
    terms = parse_fields(fields, supported)
    if not requirements and not terms:
        return None

    def matches(record: Record) -> bool:
        if requirements:
            found = record.labels
            if not all(requirement.matches(found) for requirement in requirements):
                return False
        return all((_field(record, term.path, supported) == term.value) is term.equal for term in terms)

    return matches


def _field(record: Record, path: str, supported: tuple[str, ...]) -> str:
    if path == "metadata.name":
        return record.key.rpartition("/")[2]
    if path == "metadata.namespace":
        return record.key.rpartition("/")[0]
    return record.fields(supported)[path]


def selects(selector: dict[str, object] | None, labels: Labels) -> bool:
    """Whether a LabelSelector object selects these labels; none, or one that cannot be read, selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    assert isinstance(wanted, dict)
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    expressions = selector.get("matchExpressions") or []
    assert isinstance(expressions, list)
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    if any(one.get("operator") not in operators for one in expressions):
        return False
    return all(
        Requirement(one.get("key", ""), operators[one["operator"]], frozenset(one.get("values") or [])).matches(labels)
        for one in expressions
    )


def selector_text(selector: dict[str, Any] | None) -> str:
    """A LabelSelector object as a one-line selector."""
    if not selector:
        return ""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or []:
        values = ",".join(sorted(one.get("values") or []))
        match one.get("operator"):
            case "In":
                terms.append(f"{one['key']} in ({values})")
            case "NotIn":
                terms.append(f"{one['key']} notin ({values})")
            case "Exists":
                terms.append(one["key"])
            case "DoesNotExist":
                terms.append(f"!{one['key']}")
    return ",".join(sorted(terms))
