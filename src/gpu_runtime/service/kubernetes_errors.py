"""Maps errors of the Kubernetes API server to errors of our REST API."""

from __future__ import annotations

import math

from gpu_runtime.api.validation import FieldError
from gpu_runtime.kube import errors as kube
from gpu_runtime.rest.errors import (
    RETRY_SECONDS,
    AlreadyExists,
    Clash,
    InsufficientCapacity,
    InvalidRequest,
    Missing,
    ServiceError,
    TooLarge,
    Unavailable,
)

CLIENT_ERRORS = (kube.BadRequest, kube.Invalid, kube.Forbidden, kube.NotFound, kube.AlreadyExists)
"""Errors that an immediate retry cannot cure."""


def refusal(error: kube.KubeError) -> ServiceError:
    """The error for the client. An error that the cluster can cause is never an internal one (500)."""
    match error:
        case kube.Invalid() | kube.BadRequest():
            details = [FieldError(cause.field, cause.message) for cause in error.causes if cause.message]
            return InvalidRequest(f"Kubernetes refused the object: {error.message}", details=details)
        case kube.NotFound():
            return Missing("object", error.message)
        case kube.AlreadyExists():
            return AlreadyExists(error.message)
        case kube.Conflict():
            return Clash(f"the object was changed at the same time; read it again and retry: {error.message}")
        case kube.Forbidden() if "exceeded quota" in error.message:
            return InsufficientCapacity(error.message)
        case kube.Forbidden() if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            return Clash(error.message)
        case kube.ApiError(code=413):
            return TooLarge(error.message)
        case kube.ApiError():
            seconds = math.ceil(error.retry_after or RETRY_SECONDS)
            return Unavailable(f"Kubernetes cannot serve the request now: {error.message}", retry_after=seconds)
        case _:
            return Unavailable(f"Kubernetes is not available: {error}")
