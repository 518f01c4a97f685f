"""Error answers: `Status` objects with the messages of the real server."""

from __future__ import annotations

import enum
import json
from typing import Any, NamedTuple

from multidict import CIMultiDict


class StartError(Exception):
    """The server cannot start; the message is the one line that the user reads."""


class Cause(NamedTuple):
    """One thing wrong with one field."""

    reason: str
    message: str
    field: str

    def wire(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class Status(Exception):
    """A request's failure as the client will read it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = CIMultiDict(headers or {})
        self.token = ""
        """The continue token by which an expired list can go on, inconsistently."""

    def wire(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


class Subject(NamedTuple):
    """What an error is about: the plural and group of a resource, and its kind."""

    group: str
    plural: str
    kind: str

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self, name: str, kind: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        if name:
            found["name"] = name
        if self.group:
            found["group"] = self.group
        if kind or self.plural:
            found["kind"] = kind or self.plural
        return found


def bad_request(message: str) -> Status:
    return Status(400, "BadRequest", message)


def unauthorized() -> Status:
    return Status(401, "Unauthorized", "Unauthorized")


def forbidden(subject: Subject, name: str, why: str, causes: list[Cause] | None = None) -> Status:
    details = subject.details(name)
    if causes:
        details["causes"] = [cause.wire() for cause in causes]
    return Status(403, "Forbidden", f'{subject.qualified} "{name}" is forbidden: {why}', details)


def not_found(subject: Subject, name: str) -> Status:
    return Status(404, "NotFound", f'{subject.qualified} "{name}" not found', subject.details(name))


def already_exists(subject: Subject, name: str) -> Status:
    return Status(409, "AlreadyExists", f'{subject.qualified} "{name}" already exists', subject.details(name))


def conflict(subject: Subject, name: str, why: str) -> Status:
    message = f'Operation cannot be fulfilled on {subject.qualified} "{name}": {why}'
    return Status(409, "Conflict", message, subject.details(name))


def stale(subject: Subject, name: str) -> Status:
    return conflict(
        subject, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def invalid(subject: Subject, name: str, causes: list[Cause]) -> Status:
    """422; the details carry the kind, and every cause names its field."""
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    texts = list(dict.fromkeys(texts))
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    kind = f"{subject.kind}.{subject.group}" if subject.group else subject.kind
    details = subject.details(name, subject.kind)
    if causes:
        details["causes"] = [cause.wire() for cause in causes]
    return Status(422, "Invalid", f'{kind} "{name}" is invalid: {joined}', details)


def gone(message: str) -> Status:
    return Status(410, "Expired", message)


def method_not_allowed(why: str = "the server does not allow this method on the requested resource") -> Status:
    return Status(405, "MethodNotAllowed", why, {})


def verb_not_supported(subject: Subject, verb: str) -> Status:
    """405 for a subresource of a custom kind; the message names the verb and the kind."""
    message = f'{verb} is not supported on resources of kind "{subject.qualified}"'
    return Status(405, "MethodNotAllowed", message, subject.details(""))


def unsupported_media_type(message: str, details: dict[str, Any] | None = None) -> Status:
    return Status(415, "UnsupportedMediaType", message, details)


def not_acceptable(accepted: str) -> Status:
    return Status(406, "NotAcceptable", f"only the following media types are accepted: {accepted}", {})


def too_many_requests(message: str, retry_after: int, details: dict[str, Any] | None = None) -> Status:
    found = {**(details or {}), "retryAfterSeconds": retry_after}
    return Status(429, "TooManyRequests", message, found, {"Retry-After": str(retry_after)})


def internal(message: str) -> Status:
    return Status(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


class Reason(enum.StrEnum):
    """The reasons of field errors."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    NOT_FOUND = "FieldValueNotFound"
    TYPE_INVALID = "FieldValueTypeInvalid"


def quoted(value: Any) -> str:
    """A value as Go's error messages print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(field: str, message: str = "") -> Cause:
    return Cause(Reason.REQUIRED, "Required value" + (f": {message}" if message else ""), field)


def wrong(field: str, value: Any, message: str) -> Cause:
    return Cause(Reason.INVALID, f"Invalid value: {quoted(value)}: {message}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause(Reason.DUPLICATE, f"Duplicate value: {quoted(value)}", field)


def unsupported(field: str, value: Any, supported: list[str]) -> Cause:
    options = ", ".join(f'"{one}"' for one in supported)
    return Cause(Reason.NOT_SUPPORTED, f"Unsupported value: {quoted(value)}: supported values: {options}", field)


def disallowed(field: str, message: str) -> Cause:
    return Cause(Reason.FORBIDDEN, f"Forbidden: {message}", field)


def too_long(field: str, limit: int, what: str = "bytes") -> Cause:
    return Cause(Reason.TOO_LONG, f"Too long: may not be more than {limit} {what}", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    return Cause(Reason.TOO_MANY, f"Too many: {count}: must have at most {limit} items", field)


def immutable(field: str, value: Any) -> Cause:
    return wrong(field, value, "field is immutable")
