"""What a status chain finds: the Ready condition and the phase that goes with it."""

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
    """Ready or not, why, and in which of four states."""

    state: State
    reason: str
    message: str

    def condition(self, generation: int) -> Condition:
        status = Condition.true if self.state == "ready" else Condition.false
        return status(READY, self.reason, self.message, generation)


class Blocked(Exception):
    """A phase cannot go on. The outcome goes into the status; then `error` decides when to try again.

    Without an error and without seconds, the change that lifts the block brings the object back by itself.
    """

    def __init__(self, outcome: Readiness, *, error: Exception | None = None, seconds: float | None = None) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
        self.error = error
        self.seconds = seconds

    def result(self) -> Result:
        """What the reconcile ends with, once the status says why."""
        if self.error is not None:
            raise self.error
        return Result(self.seconds)


def in_words(errors: Iterable[FieldError]) -> list[str]:
    """Errors of a spec as its author reads them, each with its field."""
    return [f"spec.{error.field}: {error.message}" for error in errors]


def waiting(reason: str, message: str, seconds: float | None = None) -> Blocked:
    """Blocked by something that passes."""
    return Blocked(Readiness("progressing", reason, message), seconds=seconds)


def invalid(message: str, reason: str = INVALID_SPEC) -> Blocked:
    """Blocked until the spec changes: trying again cannot help."""
    return Blocked(Readiness("failed", reason, message), error=Terminal(message))


@contextmanager
def reported_as(reason: str) -> Iterator[None]:
    """Refusals of a child become the outcome that a person can act on; passing trouble is retried without a word."""
    try:
        yield
    except (Conflict, TooManyRequests):
        raise
    except NameConflict as error:
        # Nobody tells us when the foreign object goes: it is not ours to watch.
        raise Blocked(Readiness("failed", NAME_CONFLICT, str(error)), seconds=NAME_CONFLICT_SECONDS) from error
    except (Invalid, BadRequest) as error:
        raise invalid(str(error)) from error
    except ApiError as error:
        if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            raise Terminal(str(error)) from error  # the owner is about to go as well
        raise Blocked(Readiness("failed", reason, str(error)), error=error) from error
