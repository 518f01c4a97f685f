"""What a refused write becomes: words in the status, a time to try again, or neither."""

from __future__ import annotations

import pytest

from gpu_runtime.controllers.readiness import Blocked, Readiness, invalid, reported_as, waiting
from gpu_runtime.kube import NameConflict, Result, Terminal, Unreachable
from gpu_runtime.kube.errors import Cause, KubeError, Status, StatusDetails, error_from_status


def refusal(code: int, reason: str = "", *causes: str) -> KubeError:
    details = StatusDetails(causes=[Cause(reason=cause) for cause in causes])
    return error_from_status(Status(code=code, reason=reason, message="no", details=details))


REPORTED: dict[str, tuple[KubeError, str, type[Exception] | None, float | None]] = {
    "not allowed": (refusal(403), "DeploymentSyncFailed", type(refusal(403)), None),
    "not found": (refusal(404), "DeploymentSyncFailed", type(refusal(404)), None),
    "the server failed": (refusal(500), "DeploymentSyncFailed", type(refusal(500)), None),
    "the object is invalid": (refusal(422), "InvalidSpec", Terminal, None),
    "the request is bad": (refusal(400), "InvalidSpec", Terminal, None),
    "somebody else has the name": (NameConflict("it is not ours"), "NameConflict", None, 15.0),
}


@pytest.mark.parametrize(("error", "reason", "then", "seconds"), REPORTED.values(), ids=REPORTED)
def test_a_person_is_told_when(
    error: KubeError, reason: str, then: type[Exception] | None, seconds: float | None
) -> None:
    with pytest.raises(Blocked) as blocked, reported_as("DeploymentSyncFailed"):
        raise error
    assert blocked.value.outcome == Readiness("failed", reason, str(error))
    if then is None:
        assert blocked.value.result() == Result(seconds)
    else:
        with pytest.raises(then):
            blocked.value.result()


PASSING: dict[str, tuple[Exception, type[Exception]]] = {
    "our cache was behind": (refusal(409), type(refusal(409))),
    "the server asks for patience": (refusal(429), type(refusal(429))),
    "the server is away": (Unreachable("no answer"), Unreachable),
    "the namespace is going, and its objects with it": (refusal(403, "Forbidden", "NamespaceTerminating"), Terminal),
}


@pytest.mark.parametrize(("error", "raised"), PASSING.values(), ids=PASSING)
def test_nothing_is_said_when(error: Exception, raised: type[Exception]) -> None:
    with pytest.raises(raised), reported_as("DeploymentSyncFailed"):
        raise error


def test_a_block_that_passes_is_no_failure_and_a_bad_spec_waits_for_its_change() -> None:
    assert waiting("AwaitingStock", "soon").result() == Result(None)
    assert waiting("AwaitingStock", "soon", 2.0).result() == Result(2.0)
    with pytest.raises(Terminal, match="bad"):
        invalid("bad").result()
