"""The part of JSONPath that printer columns use: fields, indexes and one-field filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Step = Callable[[Any], list[Any]]

_PART = re.compile(
    r"\.(?P<field>[^.\[\]]+)"
    r"|\[(?P<index>-?\d+)\]"
    r"|\[(?P<all>\*)\]"
    r"|\['(?P<quoted>[^']+)'\]"
    r"|\[\?\(@\.(?P<key>[^=!\s]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\)\]"
)


@lru_cache(maxsize=1024)
def steps(path: str) -> tuple[Step, ...] | None:
    """The path as steps; None when it uses unsupported syntax."""
    found: list[Step] = []
    at = 0
    text = path.strip().replace("\\.", "\x00")
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        found.append(_step(part))
        at = part.end()
    return tuple(found)


def _step(part: re.Match[str]) -> Step:
    if part["index"] is not None:
        return _item(int(part["index"]))
    if part["all"] is not None:
        return lambda value: list(value) if isinstance(value, list) else []
    if part["key"] is not None:
        return _filtered(part["key"], part["value"])
    return _field((part["field"] or part["quoted"]).replace("\x00", "."))


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _item(at: int) -> Step:
    return lambda value: [value[at]] if isinstance(value, list) and -len(value) <= at < len(value) else []


def _filtered(key: str, wanted: str) -> Step:
    def matching(value: Any) -> list[Any]:
        if not isinstance(value, list):
            return []
        return [one for one in value if isinstance(one, dict) and str(one.get(key)) == wanted]

    return matching


def find(document: Any, path: str) -> list[Any]:
    """All values at the path."""
    found = [document]
    for step in steps(path) or (lambda _: [],):
        found = [one for value in found for one in step(value)]
    return found
