from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from equipment.mutation import mutant
from unit.proxy.world import UNIT, RawUnit, a_unit, got, proxy_to, send


@pytest.fixture
async def unit() -> AsyncIterator[RawUnit]:
    async with RawUnit().serving() as unit:
        yield unit


def request_line(unit: RawUnit) -> str:
    return unit.received[-1].split(b"\r\n")[0].decode()


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        ("/", "/"),
        ("/tree?a=1&b=%20", "/tree?a=1&b=%20"),
        ("/a%2Fb/%2e%2e/c", "/a%2Fb/%2e%2e/c"),
        ("/../../other/x", "/../../other/x"),
        ("//double", "//double"),
        ("/@evil:80/", "/@evil:80/"),
        ("/http://169.254.169.254/", "/http://169.254.169.254/"),
    ],
)
async def test_the_path_arrives_as_it_was_sent_and_at_no_other_place(unit: RawUnit, sent: str, arrived: str) -> None:
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"GET {UNIT}{sent} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert request_line(unit) == f"GET {arrived} HTTP/1.1"


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/units",
            "/units/",
            "/units/runtime-instance",
            "/units/runtime-instance/",
            "/other/runtime-instance/demo/",
        ),
        *("/units/runtime-instance/de%6do/", "/units/runtime-instance%2Fdemo/", "/units/./demo/", "/units/../demo/"),
        *("/units/runtime-instance/demo.evil/", "/units/runtime-instance/demo@evil/", "/units/10.0.0.9/demo/"),
        *("/units/runtime-instance/demo%00/", "/units/runtime-instance/DEMO/", "/units/runtime-instance/ghost/"),
        *("/units/kube-system/demo/", "/units/[::1]/demo/", "/units/2130706433/0177.0.0.1/", "/units/%E2%80%A4/demo/"),
    ],
)
async def test_a_path_that_names_no_unit_reaches_nobody(unit: RawUnit, path: str) -> None:
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b'{"error":{"code":"' in answer
    assert unit.received == []


async def test_a_unit_without_its_slash_is_redirected_to_it(unit: RawUnit) -> None:
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"GET {UNIT}?a=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 308 ")
    assert f"Location: {UNIT}/?a=1\r\n".encode() in answer
    assert unit.received == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(
            "POST {u}/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
            "0\r\n\r\nGET {u}/hidden HTTP/1.1\r\n\r\n",
            id="length and chunks",
        ),
        pytest.param(
            "POST {u}/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            id="two lengths",
        ),
        pytest.param(
            "POST {u}/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            id="an unknown encoding",
        ),
        pytest.param("POST {u}/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: +3\r\n\r\nabc", id="a signed length"),
        pytest.param(
            "POST {u}/ HTTP/1.1\r\nHost: localhost\r\nContent-Length : 3\r\n\r\nabc", id="a space before the colon"
        ),
        pytest.param("GET {u}/ HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n folded\r\n\r\n", id="a folded header"),
        pytest.param("GET {u}/ HTTP/1.1\nHost: localhost\n\n", id="bare line feeds"),
        pytest.param("GET {u}/ HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n\r\n", id="a NUL"),
        pytest.param("GET {u}/a b HTTP/1.1\r\nHost: localhost\r\n\r\n", id="a space in the path"),
    ],
)
async def test_an_ambiguous_request_is_refused_and_its_connection_closed(unit: RawUnit, request_bytes: str) -> None:
    async with proxy_to(unit.port) as port:
        answer = await send(port, request_bytes.replace("{u}", UNIT).encode())
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert unit.received == []


@pytest.mark.parametrize("target", ["http://localhost/units/runtime-instance/demo/", "*"])
async def test_a_target_that_is_no_path_reaches_nobody(unit: RawUnit, target: str) -> None:
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"OPTIONS {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert b" 40" in answer.split(b"\r\n")[0]
    assert unit.received == []


@pytest.mark.parametrize("chunked", [False, True])
async def test_one_request_in_is_one_request_out_with_its_body(unit: RawUnit, chunked: bool) -> None:
    framing = (
        "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n" if chunked else "Content-Length: 3\r\n\r\nabc"
    )
    async with proxy_to(unit.port) as port:
        answer = await send(
            port, f"POST {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{framing}".encode()
        )
    assert answer.endswith(b"ok")
    assert len(unit.received) == 1
    end = b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n" if chunked else b"\r\n\r\nabc"
    assert unit.received[0].endswith(end)


async def test_nothing_is_sent_in_the_clients_name_that_it_did_not_say(unit: RawUnit) -> None:
    async with proxy_to(unit.port) as port:
        await send(
            port, f"GET {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: a=b\r\n\r\n".encode()
        )
    names = sorted(line.split(b":")[0] for line in unit.received[0].split(b"\r\n")[1:] if line)
    assert names == [
        *(b"Connection", b"Host", b"X-Forwarded-For", b"X-Forwarded-Host", b"X-Forwarded-Prefix", b"X-Forwarded-Proto")
    ]


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        ("Host: evil.example", "GET"),
        ("Host: localhost\r\nOrigin: http://evil.example", "POST"),
        ("Host: localhost\r\nOrigin: null", "DELETE"),
        ("Host: localhost\r\nOrigin: http://evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket", "GET"),
    ],
)
async def test_a_page_of_another_site_is_refused(unit: RawUnit, headers: str, method: str) -> None:
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"{method} {UNIT}/ HTTP/1.0\r\n{headers}\r\n\r\n".encode())
    assert b" 403 " in answer.split(b"\r\n")[0]
    assert unit.received == []


async def test_a_unit_that_does_not_listen_is_a_bad_gateway() -> None:
    async with RawUnit().serving() as gone:
        pass
    async with proxy_to(gone.port) as port, got(port) as answer:
        assert answer.status == 502
        error = (await answer.json())["error"]
    assert error["code"] == "unit_unreachable"
    assert error["message"] == f"GPU unit at {UNIT} does not answer: Connection refused"


@pytest.mark.parametrize(
    "said", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\nok"]
)
async def test_a_unit_that_speaks_no_http_is_a_bad_gateway(unit: RawUnit, said: bytes) -> None:
    unit.answer = said
    async with proxy_to(unit.port) as port, got(port) as answer:
        assert answer.status == 502


async def test_a_unit_that_is_not_ready_says_so_and_when_to_ask_again(unit: RawUnit) -> None:
    async with proxy_to(unit.port, a_unit(service="")) as port, got(port) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert (await answer.json())["error"]["code"] == "unit_not_ready"


async def test_half_an_answer_never_looks_like_a_whole_one(unit: RawUnit) -> None:
    unit.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    async with proxy_to(unit.port) as port, got(port) as answer:
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body_pass(unit: RawUnit, status: int) -> None:
    unit.answer = f"HTTP/1.1 {status} Fine\r\nETag: x\r\n\r\n".encode()
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"GET {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} Fine\r\n".encode())
    assert answer.endswith(b"\r\n\r\n")


async def test_the_answer_to_head_keeps_its_length(unit: RawUnit) -> None:
    unit.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"HEAD {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert b"Content-Length: 1234\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_compressed_answers_arrive_as_the_unit_made_them(unit: RawUnit) -> None:
    unit.answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz"
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"GET {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert b"Content-Encoding: gzip\r\n" in answer
    assert answer.endswith(b"xyz")


@pytest.mark.parametrize("location", ["/elsewhere", "http://127.0.0.1:{port}/elsewhere", "http://169.254.169.254/"])
@mutant("proxy/forwarding.py", "allow_redirects=False", "allow_redirects=True")
async def test_a_redirect_of_a_unit_is_the_clients_to_follow_and_never_ours(unit: RawUnit, location: str) -> None:
    target = location.format(port=unit.port)
    unit.answer = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
    async with proxy_to(unit.port) as port:
        answer = await send(port, f"GET {UNIT}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 302 Found\r\n")
    assert len(unit.received) == 1
