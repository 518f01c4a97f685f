"""The errors of the REST API. `http/errors.py` maps them to HTTP status codes; a Clash is a 409."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.validation import FieldError

RETRY_SECONDS = 2


class ErrorBody(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a request was refused."""

    code: Annotated[str, Meta(description="For programs, such as invalid_request.")]
    message: Annotated[str, Meta(description="For people: the problem, and what to do about it.")]
    details: Annotated[list[FieldError], Meta(description="All invalid fields.")] = []


class ErrorEnvelope(Struct, frozen=True, kw_only=True):
    error: ErrorBody


class ServiceError(Exception):
    """A refused request: `code` for programs, the message for people, `details` for each invalid field."""

    code = "error"

    def __init__(self, message: str, *, details: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)


class InvalidRequest(ServiceError):
    """The request is invalid; `details` lists all invalid fields."""

    code = "invalid_request"

    @classmethod
    def of(cls, details: Sequence[FieldError]) -> InvalidRequest:
        first = details[0]
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        return cls(
            f"{first.field}: {first.message}{more}" if first.field else f"{first.message}{more}", details=details
        )


class Unauthenticated(ServiceError):
    code = "unauthenticated"


class Forbidden(ServiceError):
    code = "forbidden"


class Missing(ServiceError):
    """An object that the request names does not exist."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = f"{kind}_not_found"


class Clash(ServiceError):
    """The current state of the platform does not allow the request (409)."""

    code = "conflict"


class OperationConflict(Clash):
    """The operationID was used with a different request."""

    code = "operation_conflict"


class InsufficientCapacity(Clash):
    """No stock can be handed over now. The same request may be sent again."""

    code = "insufficient_capacity"


class AlreadyExists(Clash):
    """An object with this name exists, and this request did not create it."""

    code = "already_exists"


class SpecConflict(Clash):
    """The spec name already has another size."""

    code = "spec_conflict"


class StorageInUse(Clash):
    """A unit or another storage holds the storage."""

    code = "storage_in_use"


class InvocationConflict(Clash):
    """The invocationID was used with a different request."""

    code = "invocation_conflict"


class InvocationAmbiguous(Clash):
    """Several functions have an invocation of this id."""

    code = "invocation_ambiguous"


class InvocationState(Clash):
    """The state of the invocation does not allow the request."""

    code = "invocation_state"


class TooLarge(ServiceError):
    code = "too_large"


class TooManyRequests(ServiceError):
    """Too many requests at once for this process."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: int = RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueFull(TooManyRequests):
    """The queue of the function has reached its limit."""

    code = "queue_full"


class Unavailable(ServiceError):
    """The request cannot be served now. The same request may be sent again."""

    code = "service_unavailable"

    def __init__(self, message: str, *, retry_after: int = RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_after = retry_after
