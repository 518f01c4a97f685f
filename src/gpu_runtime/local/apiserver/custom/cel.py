"""The validation rules that our CRDs use: literal immutability, and nothing else of CEL.

Read are comparisons of paths below `self` and `oldSelf` and of literals, `has()`, `!`, `&&`, `||` and parentheses. Any
other expression is refused when the CRD is created: a rule that is not evaluated would be a promise that is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpu_runtime.local.apiserver.custom.structural import Schema
from gpu_runtime.local.apiserver.errors import Cause, Reason

Scope = dict[str, Any]
Expression = Callable[[Scope], Any]

_TOKEN = re.compile(r"\s*(==|!=|&&|\|\||[!().]|[A-Za-z_]\w*|-?\d+|'[^'\\]*'|\"[^\"\\]*\"|$)")
_ABSENT = object()


class Unsupported(ValueError):
    """The rule is more than we evaluate."""


class NoSuchKey(Exception):
    """A rule reads a field that is not there."""


class Rule:
    """One compiled rule."""

    __slots__ = ("evaluate", "field_path", "message", "reason", "text", "transition")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.text: str = raw["rule"]
        self.evaluate = compile_rule(self.text)
        self.transition = "oldSelf" in self.text
        self.message: str = raw.get("message") or f"failed rule: {self.text}"
        self.field_path: str = raw.get("fieldPath", "")
        self.reason = raw.get("reason") or Reason.INVALID
        if raw.get("messageExpression") or raw.get("optionalOldSelf"):
            raise Unsupported("messageExpression and optionalOldSelf are not evaluated by the embedded API server")


def compile_rule(text: str) -> Expression:
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
    parser = _Parser(tokens, text)
    expression = parser.either()
    if parser.at != len(tokens):
        raise parser.refused()
    return expression


class _Parser:
    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens = tokens
        self.text = text
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

    def either(self) -> Expression:
        left = self.both()
        while self.peek() == "||":
            self.take()
            left = _or(left, self.both())
        return left

    def both(self) -> Expression:
        left = self.comparison()
        while self.peek() == "&&":
            self.take()
            left = _and(left, self.comparison())
        return left

    def comparison(self) -> Expression:
        left = self.unary()
        if self.peek() in ("==", "!="):
            equal = self.take() == "=="
            left = _compare(left, self.unary(), equal)
        return left

    def unary(self) -> Expression:
        word = self.peek()
        if word == "!":
            self.take()
            inner = self.unary()
            return lambda scope: not inner(scope)
        if word == "(":
            self.take()
            inner = self.either()
            self.take(")")
            return inner
        if word == "has":
            self.take()
            self.take("(")
            path = self.path()
            self.take(")")
            if len(path) < 2:
                raise self.refused()
            return lambda scope: _read(scope, path) is not _ABSENT
        if word in ("self", "oldSelf"):
            path = self.path()
            return lambda scope: _must_read(scope, path)
        return self.literal()

    def path(self) -> list[str]:
        if self.peek() not in ("self", "oldSelf"):
            raise self.refused()
        found = [self.take()]
        while self.peek() == ".":
            self.take()
            found.append(self.take())
            if self.peek() == "(":
                raise self.refused()
        return found

    def literal(self) -> Expression:
        word = self.take()
        if word in ("true", "false"):
            return lambda _: word == "true"
        if word[0] in "'\"":
            return lambda _: word[1:-1]
        if word.lstrip("-").isdecimal():
            return lambda _: int(word)
        raise self.refused()


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


def _must_read(scope: Scope, path: list[str]) -> Any:
    found = _read(scope, path)
    if found is _ABSENT:
        raise NoSuchKey(path[-1])
    return found


class Rules:
    """All rules of a schema, by where they stand. Lists are not entered: rules inside them are refused."""

    def __init__(self, schema: Schema) -> None:
        self.by_path: list[tuple[tuple[str, ...], list[Rule]]] = []
        self._collect(schema, ())

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def _collect(self, schema: Schema, path: tuple[str, ...]) -> None:
        if schema.get("x-kubernetes-validations"):
            self.by_path.append((path, [Rule(one) for one in schema["x-kubernetes-validations"]]))
        for name, inside in (schema.get("properties") or {}).items():
            self._collect(inside, (*path, name))
        for inside in (schema.get("items"), schema.get("additionalProperties")):
            if isinstance(inside, dict) and _has_rules(inside):
                raise Unsupported("the embedded API server evaluates no rules inside lists and maps")

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


def _has_rules(schema: Schema) -> bool:
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return bool(schema.get("x-kubernetes-validations")) or any(
        _has_rules(one) for one in inner if isinstance(one, dict)
    )


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
    except NoSuchKey as error:
        text = f"Invalid value: {shown}: no such key: {error} evaluating rule: {rule.text}"
        return [Cause(Reason.INVALID, text, ".".join(path) or "<nil>")]
    if rule.reason == Reason.FORBIDDEN:
        return [Cause(rule.reason, f"Forbidden: {rule.message}", field or "<nil>")]
    return [Cause(rule.reason, f"Invalid value: {rule.message}", field or "<nil>")]
