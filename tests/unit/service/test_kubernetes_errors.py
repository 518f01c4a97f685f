"""What the API server answers, in the words of our API: never an internal error."""

from __future__ import annotations

import pytest
from aiohttp import web

from gpu_runtime.http.errors import response_to
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.errors import Cause, KubeError
from gpu_runtime.service.kubernetes_errors import refusal


def answered(
    kind: type[kube.ApiError], code: int, message: str = "m", cause: str = "", after: float | None = None
) -> kube.ApiError:
    causes = [Cause(reason=cause, message="is wrong", field="spec.x")] if cause else []
    return kind(code, kind.__name__, message, causes=causes, retry_after=after)


CASES: dict[str, tuple[KubeError, int, str]] = {
    "invalid": (answered(kube.Invalid, 422, cause="FieldValueInvalid"), 400, "invalid_request"),
    "bad request": (answered(kube.BadRequest, 400), 400, "invalid_request"),
    "not found": (answered(kube.NotFound, 404), 404, "object_not_found"),
    "already there": (answered(kube.AlreadyExists, 409), 409, "already_exists"),
    "conflict": (answered(kube.Conflict, 409), 409, "conflict"),
    "quota": (answered(kube.Forbidden, 403, "exceeded quota: q"), 409, "insufficient_capacity"),
    "namespace ends": (answered(kube.Forbidden, 403, cause="NamespaceTerminating"), 409, "conflict"),
    "our own rights": (answered(kube.Forbidden, 403), 503, "service_unavailable"),
    "our own credentials": (answered(kube.Unauthorized, 401), 503, "service_unavailable"),
    "patience": (answered(kube.TooManyRequests, 429, after=3), 503, "service_unavailable"),
    "gone": (answered(kube.Gone, 410), 503, "service_unavailable"),
    "server error": (answered(kube.ServerError, 500), 503, "service_unavailable"),
    "too large": (answered(kube.ApiError, 413), 413, "too_large"),
    "no answer": (kube.Unreachable("no answer"), 503, "service_unavailable"),
    "unreadable": (kube.Unreadable("a newer version wrote it"), 503, "service_unavailable"),
}


@pytest.mark.parametrize(("error", "status", "code"), CASES.values(), ids=CASES)
def test_every_answer_of_the_cluster_has_a_place_in_our_contract(error: KubeError, status: int, code: str) -> None:
    response = response_to(error)
    assert (response.status, refusal(error).code) == (status, code)
    assert ("Retry-After" in response.headers) is (status == 503)


def test_the_servers_own_time_to_wait_is_passed_on() -> None:
    assert response_to(CASES["patience"][0]).headers["Retry-After"] == "3"


def test_the_fields_that_the_server_refuses_are_named() -> None:
    assert [detail.field for detail in refusal(CASES["invalid"][0]).details] == ["spec.x"]


def test_a_wrong_method_names_the_right_ones() -> None:
    response = response_to(web.HTTPMethodNotAllowed("PATCH", ["GET", "POST"]))
    assert (response.status, response.headers["Allow"]) == (405, "GET,POST")
