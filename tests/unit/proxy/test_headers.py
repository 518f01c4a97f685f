from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gpu_runtime.proxy.headers import to_client, to_unit, within

PREFIX = "/units/runtime-instance/demo"
OWN = ("http://demo.runtime-instance.svc.cluster.local:8080", "http://10.0.0.9:8080")


def given(*headers: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(headers))


def at_the_unit(*headers: tuple[str, str]) -> CIMultiDict[str]:
    return to_unit(given(*headers), host="demo:8080", client="10.1.1.1", public_host="gpu.example", prefix=PREFIX)


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Cookie", "Proxy-Authorization", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade"),
        *("Transfer-Encoding", "Content-Length", "Expect", "Forwarded", "X-Real-IP", "X-Forwarded-User"),
        *("X-Forwarded-Server", "Sec-WebSocket-Key", "X-Original-URL"),
    ],
)
def test_a_header_that_is_not_the_units_business_does_not_reach_it(name: str) -> None:
    assert name not in at_the_unit((name, "x"))


def test_headers_that_connection_names_go_no_further() -> None:
    passed = at_the_unit(("Connection", "close, X-Secret"), ("X-Secret", "1"), ("X-Open", "2"))
    assert "X-Secret" not in passed
    assert passed["X-Open"] == "2"


def test_the_unit_is_told_by_us_who_asked() -> None:
    passed = at_the_unit(("X-Forwarded-For", "1.2.3.4"), ("Host", "evil"), ("Accept", "a"), ("Accept", "b"))
    assert passed.getall("X-Forwarded-For") == ["10.1.1.1"]
    assert passed.getall("Host") == ["demo:8080"]
    assert passed["X-Forwarded-Prefix"] == PREFIX
    assert passed["X-Forwarded-Host"] == "gpu.example"
    assert passed.getall("Accept") == ["a", "b"]


@pytest.mark.parametrize("name", ["Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Alt-Svc", "Connection"])
def test_an_answer_changes_nothing_for_other_units_of_the_same_address(name: str) -> None:
    passed = to_client(given((name, "x"), ("Content-Type", "text/html")), prefix=PREFIX, own=OWN)
    assert dict(passed) == {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("location", "followed"),
    [
        ("/login?next=/", f"{PREFIX}/login?next=/"),
        ("login", "login"),
        (f"{OWN[0]}/tree", f"{PREFIX}/tree"),
        (OWN[1], f"{PREFIX}/"),
        ("http://10.0.0.9:80801/tree", "http://10.0.0.9:80801/tree"),
        ("//evil.example/", "//evil.example/"),
        ("http://169.254.169.254/", "http://169.254.169.254/"),
    ],
)
def test_a_redirect_inside_the_unit_stays_in_its_prefix_and_others_are_the_clients_to_follow(
    location: str, followed: str
) -> None:
    assert within(location, PREFIX, OWN) == followed
