"""Resource quantities (`500m`, `16Gi`, `1e3`): exact, parsed and printed as Kubernetes does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import total_ordering


class Format(Enum):
    """The suffix family of a quantity. A quantity is printed with the family it was written with."""

    BINARY_SI = "BinarySI"  # Ki Mi Gi Ti Pi Ei
    DECIMAL_SI = "DecimalSI"  # n u m k M G T P E, or none
    DECIMAL_EXPONENT = "DecimalExponent"  # e3, E-6


_NANO = -9  # decimal exponent of the smallest amount
_NANOS = 10**9
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_LARGEST_BINARY = (2**63 - 1) * _NANOS  # the API server caps binary amounts here
_LARGEST_EXPONENT = 30  # no real resource is larger; without a limit a short text could use all memory
_LONGEST_TEXT = 256

_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]*))?|\.(?P<only>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)


@total_ordering
@dataclass(frozen=True, eq=False, slots=True)
class Quantity:
    """An exact amount: equal, ordered and hashed by value (1Gi is 1024Mi), printed in canonical form."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    @classmethod
    def parse(cls, text: str, *, negative: bool = True) -> Quantity:
        """Parses `text`. ValueError says what is wrong with it."""
        match = _TEXT.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
        if match is None:
            shown = text if len(text) <= 40 else f"{text[:40]}..."
            raise ValueError(
                f"{shown!r} is not a quantity: write a number with an optional suffix, as in 500m, 1.5, 16Gi or 1e3"
            )
        fraction = match["fraction"] or match["only"] or ""
        digits = int((match["whole"] or "") + fraction)
        if match["binary"]:
            nanos, written = _binary(digits, len(fraction), _BINARY_SUFFIXES.index(match["binary"]))
        else:
            exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL_SUFFIXES[match["decimal"] or ""]
            nanos = _scaled(digits, exponent - len(fraction), text)
            written = Format.DECIMAL_EXPONENT if match["exponent"] else Format.DECIMAL_SI
        if match["sign"] == "-":
            nanos = -nanos
        if nanos < 0 and not negative:
            raise ValueError(f"{text!r} is negative: write an amount of 0 or more")
        return cls(nanos, written)

    @classmethod
    def of(cls, amount: int) -> Quantity:
        """A whole amount, such as a count of GPUs."""
        return cls(amount * _NANOS)

    @property
    def value(self) -> int:
        """The amount in whole units, rounded away from zero: a request for a fraction gets at least that fraction."""
        whole = -(-abs(self.nanos) // _NANOS)
        return whole if self.nanos >= 0 else -whole

    def __str__(self) -> str:
        """The canonical form: the largest suffix without a fraction. The API server keeps this form unchanged."""
        if self.nanos == 0:
            return "0"
        whole = self.nanos % _NANOS == 0
        if self.format is Format.BINARY_SI and whole and abs(self.nanos) >= 1024 * _NANOS:
            return _binary_text(self.nanos // _NANOS)
        return _decimal_text(self.nanos, exponents=self.format is Format.DECIMAL_EXPONENT)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, (self or other).format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, (self or other).format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nanos * times, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)


def _binary(digits: int, decimals: int, power: int) -> tuple[int, Format]:
    """`digits / 10**decimals * 1024**power` in nanos, rounded up and capped as the API server does."""
    nanos = min(-(-digits * 1024**power * _NANOS // 10**decimals), _LARGEST_BINARY)
    return nanos, Format.DECIMAL_SI if 0 < nanos < _NANOS else Format.BINARY_SI


def _scaled(digits: int, exponent: int, text: str) -> int:
    """`digits * 10**exponent` in nanos. An amount below one nano counts as one nano."""
    if digits == 0:
        return 0
    size = len(str(digits)) + exponent
    if size > _LARGEST_EXPONENT:
        raise ValueError(f"{text!r} is too large: write an amount below 1e{_LARGEST_EXPONENT}")
    if size < _NANO:
        return 1
    shift = exponent - _NANO
    return digits * int(10**shift) if shift >= 0 else -(-digits // int(10**-shift))


def _binary_text(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY_SUFFIXES[power]}"


def _decimal_text(nanos: int, *, exponents: bool) -> str:
    amount, exponent = nanos, _NANO
    # No suffix is larger than E. Beyond E the API server drops the exponent and shows 1000E as 1.
    while amount % 1000 == 0 and (exponents or exponent < _DECIMAL_SUFFIXES["E"]):
        amount, exponent = amount // 1000, exponent + 3
    if exponents:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_SUFFIX_OF[exponent]}"
