"""Hostile input: each is refused with its field, nothing is queued, and nothing is an internal error."""

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from gpu_runtime.serverless.subjects import Run
from local.invocations.world import INVOCATIONS_PATH, Api, World

JSON = {"Content-Type": "application/json"}

FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "an id with a dot": ({"invocationID": "a.b"}, "invocationID"),
    "an id with a star": ({"invocationID": "*"}, "invocationID"),
    "an id with an arrow": ({"invocationID": "a>"}, "invocationID"),
    "an id with a space": ({"invocationID": "a b"}, "invocationID"),
    "an id with a line break": ({"invocationID": "a\n"}, "invocationID"),
    "an id with a null character": ({"invocationID": "a\0"}, "invocationID"),
    "an id that begins with a dash": ({"invocationID": "-a"}, "invocationID"),
    "an id that is too long": ({"invocationID": "a" * 65}, "invocationID"),
    "an empty id": ({"invocationID": ""}, "invocationID"),
    "an id of other letters": ({"invocationID": "ü"}, "invocationID"),
    "an id of Arabic digits": ({"invocationID": "٣"}, "invocationID"),
    "an id that is a number": ({"invocationID": 7}, "invocationID"),
    "an id that is a list": ({"invocationID": ["a"]}, "invocationID"),
    "a function with a dot": ({"serverlessRequestID": "a.b"}, "serverlessRequestID"),
    "a function with a star": ({"serverlessRequestID": "*"}, "serverlessRequestID"),
    "a function with an arrow": ({"serverlessRequestID": ">"}, "serverlessRequestID"),
    "a function in capitals": ({"serverlessRequestID": "ECHO"}, "serverlessRequestID"),
    "an empty function": ({"serverlessRequestID": ""}, "serverlessRequestID"),
    "no function": ({"serverlessRequestID": None}, "serverlessRequestID"),
    "a function that is too long": ({"serverlessRequestID": "a" * 64}, "serverlessRequestID"),
    "a path as a function": ({"serverlessRequestID": "../x"}, "serverlessRequestID"),
    "a namespace with a dot": ({"namespace": "a.b"}, "namespace"),
    "a namespace with a star": ({"namespace": "*"}, "namespace"),
    "an unknown mode": ({"mode": "later"}, "mode"),
    "an unknown priority": ({"priority": "highest"}, "priority"),
    "a timeout of zero": ({"timeoutSeconds": 0}, "timeoutSeconds"),
    "a negative timeout": ({"timeoutSeconds": -1}, "timeoutSeconds"),
    "a fraction as timeout": ({"timeoutSeconds": 1.5}, "timeoutSeconds"),
    "an endless timeout": ({"timeoutSeconds": 10**12}, "timeoutSeconds"),
    "a timeout as text": ({"timeoutSeconds": "5"}, "timeoutSeconds"),
    "a wait that is too long": ({"waitSeconds": 601}, "waitSeconds"),
    "a header with a line break": ({"headers": {"a": "b\r\nc: d"}}, "headers[a]"),
    "a header with a null character": ({"headers": {"a": "\0"}}, "headers[a]"),
    "a header name with a line break": ({"headers": {"a\r\nb": "c"}}, "headers[a\r\nb]"),
    "a header name with a space": ({"headers": {"a b": "c"}}, "headers[a b]"),
    "a header name with a colon": ({"headers": {"a:": "c"}}, "headers[a:]"),
    "an empty header name": ({"headers": {"": "c"}}, "headers[]"),
    "a header that is a list": ({"headers": {"a": ["b"]}}, "headers[a]"),
    "a header that is null": ({"headers": {"a": None}}, "headers[a]"),
    "a header that is too long": ({"headers": {"a": "b" * 4097}}, "headers[a]"),
    "too many headers": ({"headers": {f"a{n}": "b" for n in range(65)}}, "headers"),
    "headers that are too large": ({"headers": {f"a{n}": "b" * 4000 for n in range(10)}}, "headers"),
    "headers that are a list": ({"headers": ["a"]}, "headers"),
    "an attribute that is an object": ({"attributes": {"a": {}}}, "attributes[a]"),
    "an empty attribute name": ({"attributes": {"": "b"}}, "attributes[]"),
    "an attribute name with a line break": ({"attributes": {"a\n": "b"}}, "attributes[a\n]"),
    "too many attributes": ({"attributes": {f"a{n}": "b" for n in range(65)}}, "attributes"),
    "an unknown field": ({"invocationid": "a"}, "invocationid"),
    "a field of the message": ({"run": 2}, "run"),
    "an operationID": ({"operationID": "a"}, "operationID"),
}


@pytest.mark.parametrize("case", FIELDS)
async def test_a_bad_field_is_named(world: World, api: Api, case: str) -> None:
    fields, named = FIELDS[case]
    function = await world.function()
    with capture_logs() as logs:
        answer = await api.call("POST", INVOCATIONS_PATH, {"serverlessRequestID": function.name, **fields})
    assert (answer.status, answer.code) == (400, "invalid_request"), answer
    assert named in answer.fields, answer
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    assert await world.stored(function) == []


BODIES: dict[str, tuple[bytes, dict[str, str], int]] = {
    "no JSON": (b"{", JSON, 400),
    "nothing": (b"", JSON, 400),
    "a list": (b"[]", JSON, 400),
    "a number": (b"7", JSON, 400),
    "NaN": (b'{"serverlessRequestID": "F", "payload": NaN}', JSON, 400),
    "a number that is too large": (b'{"serverlessRequestID": "F", "payload": 1e999}', JSON, 400),
    "half of a surrogate": (b'{"serverlessRequestID": "F", "payload": "\\ud800"}', JSON, 400),
    "bytes that are no text": (b'{"serverlessRequestID": "F", "payload": "\xff"}', JSON, 400),
    "a very deep payload": (b'{"serverlessRequestID": "F", "payload": ' + b"[" * 100_000 + b"]" * 100_000, JSON, 400),
    "a bomb": (gzip.compress(b" " * 50_000_000), {**JSON, "Content-Encoding": "gzip"}, 413),
    "plain text": (b"{}", {"Content-Type": "text/plain"}, 415),
    "a form": (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "no content type": (b"{}", {"Content-Type": ""}, 415),
    "an unknown encoding": (b"{}", {**JSON, "Content-Encoding": "br"}, 415),
    "a header that is no JSON": (b"x", {"Content-Type": "a/b", "X-Invocation": "{"}, 400),
    "a header that is a list": (b"x", {"Content-Type": "a/b", "X-Invocation": "[]"}, 400),
    "an empty header": (b"x", {"Content-Type": "a/b", "X-Invocation": ""}, 400),
    "a header without a function": (b"x", {"Content-Type": "a/b", "X-Invocation": "{}"}, 400),
    "a payload in the header": (
        b"x",
        {"Content-Type": "a/b", "X-Invocation": '{"serverlessRequestID": "F", "payload": 1}'},
        400,
    ),
    "a body that is no JSON": (b"{", {**JSON, "X-Invocation": '{"serverlessRequestID": "F"}'}, 400),
    "a content type that is too long": (
        b"x",
        {"Content-Type": "a/" + "b" * 300, "X-Invocation": '{"serverlessRequestID": "F"}'},
        400,
    ),
}


@pytest.mark.parametrize("case", BODIES)
async def test_a_bad_body_is_refused(world: World, api: Api, case: str) -> None:
    body, headers, status = BODIES[case]
    function = await world.function()
    name = function.name
    with capture_logs() as logs:
        answer = await api.call(
            "POST",
            INVOCATIONS_PATH,
            data=body.replace(b'"F"', f'"{name}"'.encode()),
            headers={key: value.replace('"F"', f'"{name}"') for key, value in headers.items()},
        )
    assert answer.status == status, answer
    assert answer.code in ("invalid_request", "too_large", "unsupported_media_type")
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    assert await world.stored(function) == []


PAYLOADS: dict[str, bytes] = {
    "null": b"null",
    "an empty text": b'""',
    "a null character": b'"\\u0000"',
    "a line of the protocol": b'"\\r\\nPUB inv.a.b 1\\r\\nx\\r\\n"',
    "control characters": b'"\\u0001\\u001f\\u007f"',
    "a number of 30 digits": b"123456789012345678901234567890",
    "a number with an exponent": b"1e300",
    "minus zero": b"-0.0",
    "keys that look like ours": b'{"payload": {"payload": 1}, "invocationID": "x", "version": "v9"}',
    "equal keys": b'{"a": 1, "a": 2}',
    "an emoji": '"😀"'.encode(),
    "spaces and line breaks": b" [ 1 ,\n 2\t] ",
    "a depth of 200": b"[" * 200 + b"]" * 200,
    "prototype": b'{"__proto__": {"a": 1}, "constructor": 1}',
}


@pytest.mark.parametrize("case", PAYLOADS)
async def test_an_odd_payload_is_taken_as_it_is_and_recognised_again(world: World, api: Api, case: str) -> None:
    payload = PAYLOADS[case]
    function = await world.function()
    body = b'{"serverlessRequestID": "%b", "invocationID": "odd", "payload":%b}' % (function.name.encode(), payload)
    for status in (202, 200):
        answer = await api.call("POST", INVOCATIONS_PATH, data=body, headers=JSON)
        assert answer.status == status, answer
    run = Run(function, "odd", 1)
    assert (await world.payload(run)).strip() == payload.strip()
    await world.end(run, data=payload.strip())
    shown = await api.get("odd", wait="30s")
    assert shown.status == 200
    assert json.loads(payload) == shown.data["body"]


PATHS = ["a.b", "*", ">", "a b", "..", "a" * 65, "ü", "a\nb", "%00", "inv.*", "-"]


@pytest.mark.parametrize("name", PATHS)
async def test_a_bad_id_in_the_path_never_reaches_the_broker(api: Api, name: str) -> None:
    place = f"{INVOCATIONS_PATH}/{quote(name, safe='')}"
    for method, path in (
        ("GET", place),
        ("POST", f"{place}/cancel"),
        ("POST", f"{place}/retry"),
        ("GET", f"{place}/stream"),
    ):
        answer = await api.call(method, path)
        assert answer.status in (400, 404), (method, path, answer)
        assert answer.code in ("invalid_request", "route_not_found")


QUERIES: dict[str, tuple[str, dict[str, str], str]] = {
    "a wait without a number": ("/x", {"wait": "s"}, "wait"),
    "a negative wait": ("/x", {"wait": "-1s"}, "wait"),
    "a wait of hours": ("/x", {"wait": "1h"}, "wait"),
    "a wait that is huge": ("/x", {"wait": "99999999s"}, "wait"),
    "a function with a star": ("/x", {"function": "*"}, "function"),
    "a namespace with an arrow": ("/x", {"function": "a", "namespace": ">"}, "namespace"),
    "an unknown parameter": ("/x", {"functon": "a"}, "functon"),
    "an unknown state": ("", {"state": "done"}, "state"),
    "a time that is none": ("", {"since": "yesterday"}, "since"),
    "a page of nothing": ("", {"limit": "0"}, "limit"),
    "a page of everything": ("", {"limit": "100000"}, "limit"),
}


@pytest.mark.parametrize("case", QUERIES)
async def test_a_bad_parameter_is_named(api: Api, case: str) -> None:
    path, query, named = QUERIES[case]
    answer = await api.call("GET", INVOCATIONS_PATH + path, params=query)
    assert (answer.status, answer.code) == (400, "invalid_request"), answer
    assert named in answer.fields
