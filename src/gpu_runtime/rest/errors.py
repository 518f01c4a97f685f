"""What a request can end in besides success, as types with a policy; mapped to HTTP in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.validation import FieldError

RETRY_SECONDS = 2


class ErrorBody(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a request was refused."""

    code: Annotated[str, Meta(description="For programs, such as invalid_request.")]
    message: Annotated[str, Meta(description="For people: what is wrong, and what to do about it.")]
    details: Annotated[list[FieldError], Meta(description="Every field at fault.")] = []


class ErrorEnvelope(Struct, frozen=True, kw_only=True):
    error: ErrorBody


class ServiceError(Exception):
    """A refusal: `code` for programs, the message for people, `details` for each field at fault."""

    code = "error"

    def __init__(self, message: str, *, details: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)


class InvalidRequest(ServiceError):
    """The request itself is wrong: all that is wrong with it is in `details`."""

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
    """Something that the request names is not there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = f"{kind}_not_found"


class Clash(ServiceError):
    """The state of the platform does not allow it; another request or another time might."""

    code = "conflict"


class OperationConflict(Clash):
    """The operationID was used for another request."""

    code = "operation_conflict"


class InsufficientCapacity(Clash):
    """Nothing is there to be handed over. Curable: the same request may be sent again."""

    code = "insufficient_capacity"


class AlreadyExists(Clash):
    """The name is taken by something that this request did not make."""

    code = "already_exists"


class SpecConflict(Clash):
    """A spec name stands for one size, and this is another."""

    code = "spec_conflict"


class TooLarge(ServiceError):
    code = "too_large"


class TooManyRequests(ServiceError):
    """More at once than this process serves."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: int = RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(ServiceError):
    """Not now; the same request may be sent again."""

    code = "service_unavailable"

    def __init__(self, message: str, *, retry_after: int = RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_after = retry_after
