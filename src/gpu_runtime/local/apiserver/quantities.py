"""Kubernetes quantities as the server stores them: exact, in one canonical spelling per value and suffix family."""

from __future__ import annotations

import re
from typing import Any

NANO = 10**9
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX_OF = {power: suffix for suffix, power in _BINARY.items()}
_PATTERN = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_LARGEST = (2**63 - 1) * NANO

PATTERN_TEXT = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


class NotAQuantity(ValueError):
    """The text is not a quantity."""


def nanos(value: Any) -> int:
    """The value in billionths, rounded away from zero; raises NotAQuantity."""
    return _parse(value)[0]


def canonical(value: Any, *, coarse: bool = False) -> str:
    """The spelling that the server stores: `1024Mi` is `1Gi`, `0.5` is `500m`; coarse ones are rounded up to milli."""
    amount, family = _parse(value)
    if coarse:
        amount = -(-amount // 10**6) * 10**6
    if family == "exponent" and isinstance(value, str) and value.endswith(("e0", "E0")):
        return value
    if amount == 0:
        return "0"
    if family == "binary" and not -1024 * NANO < amount < 1024 * NANO:
        whole = -(-amount // NANO)
        power = 0
        while whole % 1024 == 0 and power < 6:
            whole //= 1024
            power += 1
        return f"{whole}{_BINARY_SUFFIX_OF.get(power, '')}"
    exponent = -9
    while amount % 1000 == 0 and exponent < 18:
        amount //= 1000
        exponent += 3
    if family == "exponent" and exponent:
        return f"{amount}e{exponent}"
    return f"{amount}{_SUFFIX_OF[exponent]}"


def _parse(value: Any) -> tuple[int, str]:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise NotAQuantity(str(value))
    text = value if isinstance(value, str) else repr(value)
    found = _PATTERN.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise NotAQuantity(text)
    suffix = found[4] or ""
    fraction = found[3] or ""
    mantissa = int((found[2] or "0") + fraction or "0")
    factor, family, exponent = 1, "decimal", 0
    if suffix in _BINARY:
        factor, family = 1024 ** _BINARY[suffix], "binary"
    elif suffix in _DECIMAL:
        exponent = _DECIMAL[suffix]
    else:
        exponent, family = int(suffix[1:]), "exponent"
        if abs(exponent) > 1000:
            raise NotAQuantity(text)
    power = 9 + exponent - len(fraction)
    amount = mantissa * factor
    amount = amount * 10**power if power >= 0 else -(-amount // 10**-power)
    amount = min(amount, _LARGEST)
    return (-amount if found[1] == "-" else amount), family
