"""The errors of calls to an API server. Each type says whether a retry can help."""

from __future__ import annotations

import msgspec

from gpu_runtime import errors


class KubeError(Exception):
    """One line that a person can act on."""


class ConfigError(KubeError, errors.ConfigError):
    """The configuration names no usable cluster; retrying cannot help."""


class Unreachable(KubeError):
    """No answer came. A write may or may not have happened: only an idempotent one may be sent again."""


class NoConnection(Unreachable):
    """No connection was free in time. The request was never sent: it may be sent again."""


class Unreadable(KubeError):
    """Our types cannot decode it: an object written by a newer version or by hand, or an answer of another kind."""


class Terminal(Exception):
    """Retrying cannot help: record it and wait for the object to change."""


class RetryAfter(Exception):
    """Try again after `seconds`."""

    def __init__(self, seconds: float, message: str) -> None:
        super().__init__(message)
        self.seconds = seconds


class TaskEnded(Exception):
    """A task that must run until the process stops has ended earlier. This is a defect, and it ends the process."""


class NameConflict(KubeError):
    """An object with the name that we need has another owner. It is never changed; the reconcile is retried later."""


class OwnerGone(KubeError):
    """The owner of a child was deleted while the child was created. The child was deleted again."""


class Cause(msgspec.Struct, frozen=True):
    """One reason why a request was refused, with the field at fault."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    causes: list[Cause] = []
    retryAfterSeconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The API server's answer to what it refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(KubeError):
    """The server answered, and the answer is no."""

    def __init__(self, code: int, reason: str, message: str, *, causes: list[Cause], retry_after: float | None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after


class BadRequest(ApiError):
    """The request itself is wrong."""


class Unauthorized(ApiError):
    """The server does not know who we are: an expired or wrong credential."""


class Forbidden(ApiError):
    """The server knows who we are and denies the request."""


class NotFound(ApiError):
    """No such object, or no such kind."""


class AlreadyExists(ApiError):
    """The name is taken."""


class Conflict(ApiError):
    """A precondition failed: another writer was faster. Read again."""


class Gone(ApiError):
    """The version asked for is no longer kept: list again."""


class Invalid(ApiError):
    """The server's rules refuse the object; `causes` name the fields."""


class TooManyRequests(ApiError):
    """The server is overloaded: retry later."""


class ServerError(ApiError):
    """The server could not do it now."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_STATUS = msgspec.json.Decoder(Status)


def error_from_status(status: Status, *, subject: str = "", retry_after: float | None = None) -> ApiError:
    """The typed error for a Status object; `subject` says what we were doing."""
    details = status.details
    if retry_after is None and details is not None and details.retryAfterSeconds:
        retry_after = float(details.retryAfterSeconds)
    kind: type[ApiError] = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        kind = AlreadyExists
    message = status.message or status.reason or f"HTTP {status.code}"
    return kind(
        status.code,
        status.reason,
        f"{subject}: {message}" if subject else message,
        causes=details.causes if details is not None else [],
        retry_after=retry_after,
    )


def error_from_response(code: int, body: bytes, retry_after: str | None, *, subject: str) -> ApiError:
    """The typed error for an HTTP answer, also when a proxy in between wrote it and it is no Status."""
    try:
        status = _STATUS.decode(body)
    except msgspec.MsgspecError:
        status = Status()
    if status.code != code:
        status = Status(code=code, message=body[:200].decode(errors="replace").strip())
    return error_from_status(status, subject=subject, retry_after=_seconds(retry_after))


def _seconds(header: str | None) -> float | None:
    # The HTTP-date form is legal but no API server sends it; without a number our own back-off decides.
    return float(header) if header is not None and header.isdigit() else None
