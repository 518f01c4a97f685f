"""Every call that may change something leaves one line that says who did what."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from equipment.mutation import mutant
from unit.http.offline import offline_api, send

BODY = b'{"operationID":"mine","name":"demo","specName":"g1","image":"a"}'


def request(method: str, path: str) -> bytes:
    head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n"
    media = f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\nConnection: close\r\n\r\n"
    return head.encode() + media.encode() + BODY


@pytest.mark.parametrize(
    ("method", "path", "status", "operation_id"),
    [
        ("POST", "/gpu-units", 503, "mine"),
        ("PUT", "/gpu-units/demo", 400, "mine"),
        ("DELETE", "/gpu-units/demo", 503, ""),
        ("PATCH", "/gpu-units/demo", 405, ""),
        ("DELETE", "/nothing", 404, ""),
    ],
)
@mutant("http/app.py", 'MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})', 'MUTATING = frozenset({"POST"})')
async def test_every_call_that_may_change_something_leaves_one_line(
    tmp_path: Path, method: str, path: str, status: int, operation_id: str
) -> None:
    (tmp_path / "tokens").write_text("alice s3cret\n")
    with capture_logs() as logs:
        async with offline_api(tokenFile=str(tmp_path / "tokens")) as port:
            answer = await send(port, request(method, path))
            await send(port, request("GET", "/gpu-units"))
    assert answer.split()[1] == str(status).encode()
    (line,) = [entry for entry in logs if entry["event"] == "change"]
    assert (line["who"], line["method"], line["path"]) == ("alice", method, f"/api/v1{path}")
    assert (line["status"], line["operation_id"]) == (status, operation_id)
    assert line["request_id"].encode() in answer


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a-client.1:2_3", True), ("x" * 128, True), ("x" * 129, False), ("two words", False), ('a"b', False)],
)
@mutant("http/app.py", "given if _REQUEST_ID.fullmatch(given) else", "given if given else")
async def test_a_request_id_is_taken_over_only_if_it_is_a_short_plain_word(given: str, kept: bool) -> None:
    with capture_logs() as logs:
        async with offline_api() as port:
            head = f"DELETE /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: {given}\r\n"
            answer = await send(port, head.encode() + b"Connection: close\r\n\r\n")
    (line,) = [entry for entry in logs if entry["event"] == "change"]
    assert (line["request_id"] == given) is kept
    assert f"X-Request-ID: {line['request_id']}\r\n".encode() in answer
