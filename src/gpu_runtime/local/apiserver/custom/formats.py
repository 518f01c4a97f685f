"""The string formats that a schema may require, checked as kube-openapi checks them. Others are ignored."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_GO_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_SCALA_DURATION = re.compile(r"\d+\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = {"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"}
_UNIT_BEGINNINGS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def known(schema: dict[str, Any]) -> Callable[[str], bool] | None:
    """The check of a schema's format; None when it has no format, or one that is not checked."""
    name = schema.get("format")
    return FORMATS.get(name.replace("-", "")) if name else None


def _date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return _DATE.fullmatch(text) is not None


def _moment(text: str) -> bool:
    day, at, time = text.lower().partition("t")
    return bool(at) and _date(day) and _TIME.fullmatch(time.partition("t")[0]) is not None


def _duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    units = [unit.lower() for unit in _SCALA_DURATION.findall(text)]
    return any(unit in _UNITS or unit.startswith(_UNIT_BEGINNINGS) for unit in units)


FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "date": _date,
    "datetime": _moment,
    "duration": _duration,
}
