"""The hash of an invocation, and the rules that its schema cannot express."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.rest import invocations as rest
from gpu_runtime.rest.errors import InvalidRequest
from gpu_runtime.rest.invocations import SubmitInvocation
from gpu_runtime.serverless import subjects
from gpu_runtime.service.invocations.submission import Payload, Submission, content_type_of, invocation_hash


def hashed(payload: Any = None, **sent: Any) -> str:
    return invocation_hash({"serverlessRequestID": "echo", "payload": payload, **sent}, Payload(b"", value=payload))


def test_the_hash_is_the_same_in_every_version() -> None:
    """A replica of another version must recognise a replay: this value may never change."""
    assert hashed({"x": 1}) == "ddbc2a948747020432d8e2c6b928116f0684a71a32bb788e73546a4404653585"


def test_what_says_how_the_caller_waits_is_not_hashed() -> None:
    waits = {"mode": "sync", "waitSeconds": 5, "invocationID": "a", "namespace": "b", "serverlessRequestID": "c"}
    assert hashed(1) == hashed(1, **waits)


@pytest.mark.parametrize("payload", [None, 0, False, "", [], {}, [None], {"a": None}, {"a": ""}])
def test_payloads_that_are_almost_nothing_differ(payload: object) -> None:
    others = [None, 0, False, "", [], {}, [None], {"a": None}, {"a": ""}]
    same = [other for other in others if hashed(other) == hashed(payload)]
    assert [repr(each) for each in same] == [repr(payload)]


def test_a_number_of_any_size_has_a_hash() -> None:
    assert hashed(10**300) != hashed(10**300 + 1)


def test_bytes_differ_by_content_and_by_type() -> None:
    sent = {"serverlessRequestID": "echo"}
    hashes = {invocation_hash(sent, Payload(data, kind)) for data in (b"a", b"b") for kind in ("a/b", "a/c")}
    assert len(hashes) == 4


def test_the_id_of_the_rest_api_is_the_id_of_the_broker() -> None:
    assert rest.INVOCATION_ID == subjects.INVOCATION_ID


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (None, "application/octet-stream"),
        ("", "application/octet-stream"),
        ("image/png", "image/png"),
        ("application/json; charset=utf-8", "application/json"),
        ("Application/JSON", "application/json"),
        ("text/plain; charset=latin-1", "text/plain; charset=latin-1"),
    ],
)
def test_the_content_type_of_a_payload(header: str | None, kind: str) -> None:
    assert content_type_of(header) == kind


def test_errors_name_the_place_in_a_batch() -> None:
    request = SubmitInvocation(serverlessRequestID="echo", headers={"a b": "c"})
    with pytest.raises(InvalidRequest) as raised:
        Submission.of(request, {}, Payload(b"null"), namespace="n", where="invocations[3].")
    assert [error.field for error in raised.value.details] == ["invocations[3].headers[a b]"]


def test_an_id_of_ours_is_made_once() -> None:
    request = SubmitInvocation(serverlessRequestID="echo")
    made = Submission.of(request, {}, Payload(b"null"), namespace="n").with_id()
    assert made.is_new
    assert made.with_id() == made
    assert subjects.Run(made.function, made.invocation_id, 1).scope
