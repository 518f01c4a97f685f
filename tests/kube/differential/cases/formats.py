"""Formats of texts and kinds of numbers: each value in a field of every format, so that one answer judges them all."""

from __future__ import annotations

from kube.differential.call import Call, Case, Json, case, get, post, quietly, until
from kube.differential.objects import CRDS
from kube.differential.widget_crd import plain_crd

NAME = f"{CRDS}/widgets.${{ns}}.example.com"
SERVED = "/apis/${ns}.example.com/v1/namespaces/${ns}/widgets"
READY = until(200, get(SERVED))
FORMATS = ("byte", "date", "date-time", "datetime", "duration", "binary", "nonsense")
VALUES: dict[str, tuple[Json, ...]] = {
    "no texts": (5, -1, 1.5, 3.0, True, ["a"], [5], [], {"a": "b"}, {}, None),
    "words": ("", "x", "A", "a-b", "a.b-c", "-a.com", "a_b.com", "a.b.", "a" * 64, "a" * 254, "example.com", "é.com"),
    "days": ("2020-01-01", "2020-13-01", "2020-1-1", "20200101"),
    "moments": (
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00+01:00",
        "2020-01-01t00:00:00z",
        "2020-01-01T00:00:00.123Z",
        "2020-01-01T00:00:00",
        "2020-01-01 00:00:00Z",
        "2020-01-01T25:00:00Z",
    ),
    "durations": ("1s", "1h30m", "-1s", "1.5h", "1 day", "2 weeks", "3d", "10", "1us", "1µs", "P1D", "0", "5 x 3 min"),
    "bytes": ("YQ==", "YQ", "Y Q==", "YQ==\n", "YWFh"),
}
NUMBERS: Json = {
    f"{kind}-{name}": {"type": kind, **({"format": name} if name else {})}
    for kind, names in (("integer", ("", "int32", "int64", "double")), ("number", ("", "float", "int32")))
    for name in names
}
SIZES: tuple[Json, ...] = (
    *(3.0, 1.5, -2.0, 0.0, 2147483648, -2147483649, 9223372036854775807, 9223372036854775808, -9223372036854775809),
    *(3.5e38, 1e300, 1e20, 1e21, 9007199254740991.0, 9007199254740992.0, 30000000000.5, 0.1, "1", True),
)


def defined(properties: Json, **spec: Json) -> Call:
    inside = {"type": "object", "properties": properties, **spec}
    return post(CRDS, plain_crd({"type": "object", "properties": {"spec": inside}}))


def own(**spec: Json) -> Json:
    return {"apiVersion": "${ns}.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def judged(title: str, properties: Json, values: tuple[Json, ...]) -> Case:
    tried = (post(SERVED, own(**dict.fromkeys(properties, value)), dryRun="All") for value in values)
    return case(title, quietly(defined(properties)), READY, *tried)


TEXTS = {name: {"type": "string", "format": name} for name in FORMATS}
CASES = [
    judged("every value in fields of every format", TEXTS, tuple(one for values in VALUES.values() for one in values)),
    judged(
        "a format asks nothing of a list", {name: {**TEXTS[name], "type": "boolean"} for name in FORMATS}, ("x", [])
    ),
    judged("numbers of every size in fields of every kind", NUMBERS, SIZES),
]
