"""The validation rules that our CRDs use: literal immutability, and nothing else of CEL.

Read are comparisons of paths below `self` and `oldSelf` and of literals, `has()`, `!`, `&&`, `||` and parentheses. Any
other expression is refused when the CRD is created: a rule that is not evaluated would be a promise that is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from gpu_runtime.local.apiserver.custom.structural import Schema
from gpu_runtime.local.apiserver.errors import Cause, Reason

Scope = dict[str, Any]
Expression = Callable[[Scope], Any]

_TOKEN = re.compile(r"\s*(==|!=|&&|\|\||[!().]|[A-Za-z_]\w*|-?\d+|'[^'\\]*'|\"[^\"\\]*\"|$)")
_ABSENT = object()
_PLAIN = {"boolean": "bool", "integer": "int", "number": "double", "object": "object"}
_TEXTS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
_HELD: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "double": (int, float),
    "string": str,
    "object": dict,
    "map": dict,
    "list": list,
    "dyn": object,
}
"""What a value of a type is in Python; of those that are left out a text."""
_TEXT: Schema = {"type": "string"}
_EVERY_OBJECT: Schema = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


class Unsupported(ValueError):
    """The rule is wrong, or more than we evaluate."""


class Unevaluated(Exception):
    """A rule reads a field that is not there, or holds what the schema does not say."""


class Term(NamedTuple):
    """A part of a rule: its type, the schema behind a type with an inside, and how it is evaluated."""

    kind: str
    schema: Schema
    run: Expression


class Rule:
    """One compiled rule."""

    __slots__ = ("evaluate", "field_path", "message", "reason", "text", "transition")

    def __init__(self, raw: dict[str, Any], schema: Schema, *, root: bool = False) -> None:
        self.text: str = raw["rule"]
        self.evaluate = compile_rule(self.text, schema, root=root)
        self.transition = "oldSelf" in self.text
        self.message: str = raw.get("message") or f"failed rule: {self.text}"
        self.field_path: str = raw.get("fieldPath", "")
        self.reason = raw.get("reason") or Reason.INVALID
        if raw.get("messageExpression") or "optionalOldSelf" in raw:
            raise Unsupported("messageExpression and optionalOldSelf are not evaluated by the embedded API server")


def type_of(schema: Schema) -> str:
    """The type that rules see; empty where there is none."""
    if schema.get("x-kubernetes-int-or-string"):
        return "dyn"
    kind, others = schema.get("type", ""), schema.get("additionalProperties")
    if kind == "array":
        items = schema.get("items")
        return "list" if isinstance(items, dict) and type_of(items) else ""
    if kind == "object" and isinstance(others, dict):
        return "map" if type_of(others) else ""
    if kind == "string":
        return _TEXTS.get(schema.get("format", ""), "string")
    return _PLAIN.get(kind, "")


def compile_rule(text: str, schema: Schema, *, root: bool = False) -> Expression:
    """The rule as a function of `{"self": ..., "oldSelf": ...}`; raises Unsupported."""
    tokens: list[str] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (found.end() == at):
            raise Unsupported(f"the embedded API server evaluates immutability rules only, not: {text}")
        if found[1]:
            tokens.append(found[1])
        at = found.end()
    if root:
        schema = {**schema, "properties": _EVERY_OBJECT | (schema.get("properties") or {})}
    parser = _Parser(tokens, text, schema)
    term = parser.either()
    if parser.at != len(tokens) or term.kind != "bool":
        raise parser.refused()
    return term.run


class _Parser:
    def __init__(self, tokens: list[str], text: str, schema: Schema) -> None:
        self.tokens = tokens
        self.text = text
        self.schema = schema
        self.at = 0

    def refused(self) -> Unsupported:
        return Unsupported(f"the embedded API server evaluates immutability rules only, not: {self.text}")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise self.refused()
        self.at += 1
        return token

    def truth(self, term: Term) -> Expression:
        if term.kind not in ("bool", "dyn"):
            raise self.refused()
        return term.run

    def either(self) -> Term:
        left = self.both()
        while self.peek() == "||":
            self.take()
            left = _bool(_or(self.truth(left), self.truth(self.both())))
        return left

    def both(self) -> Term:
        left = self.comparison()
        while self.peek() == "&&":
            self.take()
            left = _bool(_and(self.truth(left), self.truth(self.comparison())))
        return left

    def comparison(self) -> Term:
        left = self.unary()
        if self.peek() in ("==", "!="):
            equal = self.take() == "=="
            right = self.unary()
            if "dyn" not in (left.kind, right.kind) and (left.kind, left.schema) != (right.kind, right.schema):
                raise self.refused()
            left = _bool(_compare(left.run, right.run, equal))
        return left

    def unary(self) -> Term:
        word = self.peek()
        if word == "!":
            self.take()
            inner = self.truth(self.unary())
            return _bool(lambda scope: not inner(scope))
        if word == "(":
            self.take()
            term = self.either()
            self.take(")")
            return term
        if word == "has":
            self.take()
            self.take("(")
            path, _ = self.path()
            self.take(")")
            if len(path) < 2:
                raise self.refused()
            return _bool(lambda scope: _read(scope, path) is not _ABSENT)
        if word in ("self", "oldSelf"):
            path, schema = self.path()
            kind = type_of(schema)
            return Term(
                kind, schema if kind in ("object", "map", "list") else {}, lambda scope: _must_read(scope, path, kind)
            )
        return self.literal()

    def path(self) -> tuple[list[str], Schema]:
        if self.peek() not in ("self", "oldSelf"):
            raise self.refused()
        found, schema = [self.take()], self.schema
        while self.peek() == ".":
            self.take()
            name = self.take()
            inside = (schema.get("properties") or {}).get(name) if type_of(schema) == "object" else None
            if type_of(schema) == "map":
                inside = schema["additionalProperties"]
            if inside is None or not type_of(inside) or self.peek() == "(":
                raise self.refused()
            found.append(name)
            schema = inside
        return found, schema

    def literal(self) -> Term:
        word = self.take()
        if word in ("true", "false"):
            return _bool(lambda _: word == "true")
        if word[0] in "'\"":
            return Term("string", {}, lambda _: word[1:-1])
        if word.lstrip("-").isdecimal():
            return Term("int", {}, lambda _: int(word))
        raise self.refused()


def _bool(run: Expression) -> Term:
    return Term("bool", {}, run)


def _or(left: Expression, right: Expression) -> Expression:
    return lambda scope: left(scope) or right(scope)


def _and(left: Expression, right: Expression) -> Expression:
    return lambda scope: left(scope) and right(scope)


def _compare(left: Expression, right: Expression, equal: bool) -> Expression:
    return lambda scope: (left(scope) == right(scope)) is equal


def _read(scope: Scope, path: list[str]) -> Any:
    found: Any = scope
    for part in path:
        if not isinstance(found, dict) or part not in found:
            return _ABSENT
        found = found[part]
    return found


def _must_read(scope: Scope, path: list[str], kind: str) -> Any:
    found = _read(scope, path)
    if found is _ABSENT:
        raise Unevaluated(f"no such key: {path[-1]}")
    if not isinstance(found, _HELD.get(kind, str)) or (isinstance(found, bool) and kind not in ("bool", "dyn")):
        raise Unevaluated(f"invalid data, expected {kind}, got {type(found).__name__}")
    return _moment(found) if kind == "timestamp" else found


def _moment(text: str) -> Any:
    """One moment is the same in every zone."""
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        return text


class Rules:
    """All rules of a schema, by where they stand. A definition with rules inside lists or maps is refused before."""

    def __init__(self, schema: Schema) -> None:
        self.by_path: list[tuple[tuple[str, ...], list[Rule]]] = []
        self._collect(schema, ())

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def _collect(self, schema: Schema, path: tuple[str, ...]) -> None:
        if schema.get("x-kubernetes-validations"):
            rules = [Rule(one, schema, root=not path) for one in schema["x-kubernetes-validations"]]
            self.by_path.append((path, rules))
        for name, inside in (schema.get("properties") or {}).items():
            self._collect(inside, (*path, name))

    def check(self, new: Any, old: Any) -> list[Cause]:
        """Causes for broken rules; rules about the past wait for an update."""
        causes = []
        for path, rules in self.by_path:
            now, before = _at(new, path), _at(old, path)
            if now is _ABSENT:
                continue
            for rule in rules:
                if rule.transition and before is _ABSENT:
                    continue
                causes += _apply(rule, now, before, path)
        return causes


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return _ABSENT
        value = value[part]
    return _ABSENT if value is None else value


def _apply(rule: Rule, now: Any, before: Any, path: tuple[str, ...]) -> list[Cause]:
    field = ".".join(path) + rule.field_path if path else rule.field_path.lstrip(".")
    shown = '"object"' if isinstance(now, dict) else repr(now)
    try:
        if rule.evaluate({"self": now, "oldSelf": before}):
            return []
    except Unevaluated as error:
        text = f"Invalid value: {shown}: {error} evaluating rule: {rule.text}"
        return [Cause(Reason.INVALID, text, ".".join(path) or "<nil>")]
    if rule.reason == Reason.FORBIDDEN:
        return [Cause(rule.reason, f"Forbidden: {rule.message}", field or "<nil>")]
    return [Cause(rule.reason, f"Invalid value: {rule.message}", field or "<nil>")]
