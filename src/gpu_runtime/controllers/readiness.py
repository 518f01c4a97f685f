"""The outcome type of the Ready checks. The checks are in `gpuunit/readiness.py` and `stockpool/readiness.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.reasons import INVALID_SPEC, NAME_CONFLICT, READY
from gpu_runtime.api.validation import FieldError
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    NameConflict,
    Terminal,
    TooManyRequests,
)

NAME_CONFLICT_SECONDS = 15.0
State = Literal["ready", "progressing", "failed", "empty"]


@dataclass(frozen=True)
class Readiness:
    """The Ready condition of an object and the state from which its phase follows."""

    state: State
    reason: str
    message: str

    def condition(self, generation: int) -> Condition:
        status = Condition.true if self.state == "ready" else Condition.false
        return status(READY, self.reason, self.message, generation)


class Blocked(Exception):
    """A step of the reconcile cannot go on. The outcome goes into the status; `error` or `seconds` says when to retry.

    Without either, a watched change brings the object back.
    """

    def __init__(self, outcome: Readiness, *, error: Exception | None = None, seconds: float | None = None) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
        self.error = error
        self.seconds = seconds

    def result(self) -> Result:
        """How the reconcile ends after its status was written."""
        if self.error is not None:
            raise self.error
        return Result(self.seconds)


def in_words(errors: Iterable[FieldError]) -> list[str]:
    """One line for each error, with the path of its field."""
    return [f"spec.{error.field}: {error.message}" for error in errors]


def waiting(reason: str, message: str, seconds: float | None = None) -> Blocked:
    """Blocked for now: the object is progressing."""
    return Blocked(Readiness("progressing", reason, message), seconds=seconds)


def invalid(message: str, reason: str = INVALID_SPEC) -> Blocked:
    """Blocked until the spec changes. A retry cannot help."""
    return Blocked(Readiness("failed", reason, message), error=Terminal(message))


@contextmanager
def reported_as(reason: str) -> Iterator[None]:
    """Turns a refused write of a child into Blocked with this reason. Conflicts and 429 are only retried."""
    try:
        yield
    except (Conflict, TooManyRequests):
        raise
    except NameConflict as error:
        # Our caches do not hold the foreign object, so no event tells us when it is deleted.
        raise Blocked(Readiness("failed", NAME_CONFLICT, str(error)), seconds=NAME_CONFLICT_SECONDS) from error
    except (Invalid, BadRequest) as error:
        raise invalid(str(error)) from error
    except ApiError as error:
        if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            raise Terminal(str(error)) from error  # the owner is deleted with the namespace
        raise Blocked(Readiness("failed", reason, str(error)), error=error) from error
