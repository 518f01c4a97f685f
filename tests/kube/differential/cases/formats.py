"""Formats of texts and kinds of numbers: each value in a field of every format, so that one answer judges them all."""

from __future__ import annotations

from kube.differential.call import Call, Case, Json, case, get, json_patch, merge, post, quietly, until
from kube.differential.objects import CRDS
from kube.differential.widget_crd import plain_crd

NAME = f"{CRDS}/widgets.${{ns}}.example.com"
SERVED = "/apis/${ns}.example.com/v1/namespaces/${ns}/widgets"
READY = until(200, get(SERVED))
FORMATS = (
    *("bsonobjectid", "byte", "cidr", "creditcard", "date", "date-time", "datetime", "duration", "email", "hexcolor"),
    *("hostname", "ipv4", "ipv6", "isbn", "isbn10", "isbn13", "k8s-long-name", "k8s-short-name", "mac", "password"),
    *("rgbcolor", "ssn", "uri", "uuid", "uuid3", "uuid4", "uuid5", "binary", "nonsense"),
)
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
    "addresses": (
        *("1.2.3.4", "1.2.3", "256.1.1.1", "01.2.3.4", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "fe80::1%eth0"),
        *("10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "fe80::/10", "1.2.3.4/"),
        *("00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "001122334455", "00:11:22:33:44"),
    ),
    "places": (
        *(
            "http://a.b/c",
            "http://a.b:80/%41",
            "http://a.b/%4",
            "http://a b/",
            "http://a:b/",
            "a.b/c",
            "/abs",
            "http://",
        ),
        *("urn:x:y", "mailto:a@b", "a@b.c", "a@b", "A <a@b.c>", "a b@c.d", "@b.c"),
    ),
    "bytes": ("YQ==", "YQ", "Y Q==", "YQ==\n", "YWFh"),
    "identities": (
        "550e8400-e29b-41d4-a716-446655440000",
        "550E8400-E29B-41D4-A716-446655440000",
        "550e8400e29b41d4a716446655440000",
        "6fa459ea-ee8a-3ca4-894e-db77e160355e",
        "886313e1-3b8a-5372-9b90-0c9aee199e5d",
        "507f1f77bcf86cd799439011",
    ),
    "numbers with a check": (
        *("0321751043", "0321751044", "080442957X", "978-0321751041", "9780321751042"),
        *("4111111111111111", "4111-1111-1111-1111", "4111111111111112", "111-22-3333", "111223333"),
    ),
    "colours": ("#fff", "#ffffff", "fff", "rgb(1,2,3)", "rgb( 1, 2 ,255 )", "rgb(1, 2, 300)"),
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


OTHERS: tuple[Json, ...] = ("x", "y", 1, 2, True, ["x"], {})
TEXTS = {name: {"type": "string", "format": name} for name in FORMATS}
CASES = [
    judged("every value in fields of every format", TEXTS, tuple(one for values in VALUES.values() for one in values)),
    judged(
        "a format asks nothing of a list", {name: {**TEXTS[name], "type": "boolean"} for name in FORMATS}, ("x", [])
    ),
    judged("numbers of every size in fields of every kind", NUMBERS, SIZES),
    case(
        "a format that nobody knows is warned of once",
        defined({"a": {"type": "string", "format": "odd"}, "b": {"type": "integer", "format": "odder"}}),
        READY,
        merge(NAME, {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a moment is the same in every zone, to a rule",
        quietly(
            defined(
                {"at": {"type": "string", "format": "date-time"}},
                **{"x-kubernetes-validations": [{"rule": "self.at == oldSelf.at", "message": "fixed"}]},
            )
        ),
        READY,
        quietly(post(SERVED, own(at="2020-01-01T00:00:00Z"))),
        merge(f"{SERVED}/a", {"spec": {"at": "2020-01-01T01:00:00+01:00"}}),
        merge(f"{SERVED}/a", {"spec": {"at": "2020-01-01T00:00:01Z"}}),
        merge(f"{SERVED}/a", {"spec": {"at": ["a"]}}),
    ),
    case(
        "a rule that meets another type says so where it stands",
        quietly(
            defined(
                {"a": {"type": "string"}, "b": {"type": "integer"}},
                **{
                    "x-kubernetes-validations": [
                        {"rule": f"self.{name} == oldSelf.{name}", "fieldPath": f".{name}"} for name in ("a", "b")
                    ]
                },
            )
        ),
        READY,
        quietly(post(SERVED, own(a="x", b=1))),
        *(
            json_patch(
                f"{SERVED}/a",
                {"op": "replace", "path": "/kind", "value": "Gadget"},
                {"op": "replace", "path": f"/spec/{name}", "value": value},
            )
            for name in ("a", "b")
            for value in OTHERS
        ),
    ),
]
