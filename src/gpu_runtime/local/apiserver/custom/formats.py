"""The formats of texts that a schema may ask for, as kube-openapi judges them; other formats say nothing."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from typing import Any

_HEX4 = "[0-9a-f]{4}"
_OF_256 = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d\d:\d\d)"
_GO_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_SCALA_DURATION = re.compile(r"\d+\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = {"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"}
_UNIT_BEGINNINGS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_ATOM = r"[^\s()<>\[\]:;@\\,.\"]+"
_ADDRESS = rf"(?:{_ATOM}(?:\.{_ATOM})*|\"[^\"]*\")@{_ATOM}(?:\.{_ATOM})*"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def known(schema: dict[str, Any]) -> Callable[[str], bool] | None:
    """How the format of a schema is judged; None where it has none, or one that nobody knows."""
    name = schema.get("format")
    return FORMATS.get(name.replace("-", "")) if name else None


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str = _HEX4, fourth: str = _HEX4) -> Callable[[str], bool]:
    return _matches(rf"[0-9a-f]{{8}}-?{_HEX4}-?{third}-?{fourth}-?[0-9a-f]{{12}}", re.IGNORECASE)


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    """An address without the leading zeros that Go once took, and that nothing else takes."""
    return re.sub(r"(?<![0-9a-fA-F:.])0+(?=\d)|(?<=\.)0+(?=\d)", "", text)


def _ipv4(text: str) -> bool:
    return "." in text and "%" not in text and _parses(ipaddress.ip_address, _plain(text))


def _ipv6(text: str) -> bool:
    return ":" in text and "%" not in text and _parses(ipaddress.IPv6Address, text)


def _cidr(text: str) -> bool:
    address, _, bits = text.partition("/")
    if not re.fullmatch(r"\d+", bits, re.ASCII) or "%" in text:
        return False
    return _parses(lambda one: ipaddress.ip_network(one, strict=False), f"{_plain(address)}/{bits}")


def _date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and _parses(date.fromisoformat, text)


def _moment(text: str) -> bool:
    day, at, time = text.lower().partition("t")
    return bool(at) and _date(day) and re.fullmatch(_TIME, time.partition("t")[0], re.ASCII) is not None


def _duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    units = [unit.lower() for unit in _SCALA_DURATION.findall(text)]
    return any(unit in _UNITS or unit.startswith(_UNIT_BEGINNINGS) for unit in units)


def _uri(text: str) -> bool:
    """An absolute URI or path, as Go's url.ParseRequestURI has it."""
    if any(ord(one) < 32 or ord(one) == 127 for one in text):
        return False
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)
    rest = text[scheme.end() :].partition("?")[0] if scheme else text.partition("?")[0]
    if not rest.startswith("/"):
        return text == "*" or scheme is not None
    host, path = "", rest
    if scheme and rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        path = slash + path
    host = host.rpartition("@")[2]
    return (
        re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\\^{|}`\[\]]*)(:\d*)?", host, re.ASCII) is not None
        and re.search(r"%(?![0-9A-Fa-f]{2})", host + path) is None
    )


def _hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    kinds = {one: unicodedata.category(one)[0] for one in set(text)}
    plain = "".join("a" if kinds[one] == "L" else "0" if kinds[one] == "S" else one for one in text)
    pattern = r"[a-z0-9](-?[a-z0-9]{0,62})?|([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}"
    return re.fullmatch(pattern, plain, re.ASCII) is not None


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum(at * (10 if one == "X" else int(one)) for at, one in enumerate(digits, 1)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    return bool(re.fullmatch(r"[0-9]{13}", digits)) and (
        sum(int(one) * (3 if at % 2 else 1) for at, one in enumerate(digits)) % 10 == 0
    )


_CARD = _matches(
    r"4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35\d{3})\d{11}"
)


def _credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    doubled = [int(one) * (1 + at % 2) for at, one in enumerate(reversed(digits))]
    return _CARD(digits) and sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": _matches(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _cidr,
    "creditcard": _credit_card,
    "date": _date,
    "datetime": _moment,
    "duration": _duration,
    "email": _matches(rf"\s*({_ADDRESS}|[^<>@]*<\s*{_ADDRESS}\s*>)\s*"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": lambda text: len(text) <= 253 and bool(re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text)),
    "k8sshortname": lambda text: len(text) <= 63 and bool(re.fullmatch(_LABEL, text)),
    "mac": _matches(
        "|".join(
            rf"[0-9a-fA-F]{{{width}}}({mark}[0-9a-fA-F]{{{width}}}){{{octets * 2 // width - 1}}}"
            for octets in (6, 8, 20)
            for width, mark in ((2, ":"), (2, "-"), (4, r"\."), (2 * octets, ""))
        )
    ),
    "password": lambda _: True,
    "rgbcolor": _matches(rf"rgb\({_OF_256},{_OF_256},{_OF_256}\)"),
    "ssn": _matches(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3[0-9a-f]{3}"),
    "uuid4": _uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
}
