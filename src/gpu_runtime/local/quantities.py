"""Quantities: reads every spelling that the server accepts and writes the one that it stores."""

from __future__ import annotations

import re
from typing import Any

from gpu_runtime.api.meta.quantity import Format, Quantity

NANO = 10**9
MILLI = 10**6
PATTERN_TEXT = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"

_TEXT = re.compile(r"[+-]?(?P<num>\d*)(?:\.(?P<denom>\d*))?(?P<suffix>[KMGTPE]i|[eE][+-]?\d+|[numkMGTPE]?)", re.ASCII)
_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class NotAQuantity(ValueError):
    """The text is not a quantity."""


def parse(value: Any) -> Quantity:
    """Parses a JSON value as a quantity. A suffix without a number is zero, as for the real server."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise NotAQuantity(str(value))
    text = value.strip(" ") if isinstance(value, str) else repr(value)
    try:
        return Quantity.parse(text)
    except ValueError:
        found = _TEXT.fullmatch(text)
        if not text or found is None or found["num"] or found["denom"]:
            raise NotAQuantity(text) from None
        return Quantity(0)


def nanos(value: Any) -> int:
    """The value in billionths, rounded away from zero."""
    return parse(value).nanos


def canonical(value: Any, *, coarse: bool = False) -> str:
    """The spelling that the server stores: `1024Mi` is `1Gi`, `0.5` is `500m`; coarse ones are rounded up to milli."""
    found = parse(value)
    text = value.strip(" ") if isinstance(value, str) else repr(value)
    if _is_kept(text, coarse=coarse):
        return text
    if coarse and found.nanos % MILLI:
        found = Quantity(-(-found.nanos // MILLI) * MILLI, found.format)
    return str(found)


def spelled(amount: int, like: str) -> str:
    """An amount in billionths in the suffix family of another quantity."""
    return str(Quantity(amount, parse(like).format if amount % NANO == 0 else Format.DECIMAL_SI))


def _is_kept(text: str, *, coarse: bool) -> bool:
    """Whether the real server treats a text as canonical and stores it unchanged."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return False
    num, denom, suffix = found["num"].lstrip("0") or "0", found["denom"] or "", found["suffix"]
    if suffix in _BINARY:
        exponent = _BINARY[suffix]
        small = 15 - len(num) - exponent * 3 // 10 - 1 >= 0
        return small and not found["denom"] and bool(int(num) & 7)
    scale = (int(suffix[1:]) if suffix[:1] in ("e", "E") and suffix[1:] else _EXPONENTS[suffix]) - len(denom)
    digits = num + denom
    small = len(digits) <= 18 and scale >= (-3 if coarse else -9)
    return small and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
