"""What an answer of the API server means to the client of ours."""

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
"""Answers that will be the same if the same request is sent at once again."""


def refusal(error: kube.KubeError) -> ServiceError:
    """The error to answer with; never an internal one for what the cluster can cause."""
    match error:
        case kube.Invalid() | kube.BadRequest():
            details = [FieldError(cause.field, cause.message) for cause in error.causes if cause.message]
            return InvalidRequest(f"Kubernetes refuses it: {error.message}", details=details)
        case kube.NotFound():
            return Missing("object", error.message)
        case kube.AlreadyExists():
            return AlreadyExists(error.message)
        case kube.Conflict():
            return Clash(f"it was changed at the same time; read it again and repeat: {error.message}")
        case kube.Forbidden() if "exceeded quota" in error.message:
            return InsufficientCapacity(error.message)
        case kube.Forbidden() if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            return Clash(error.message)
        case kube.ApiError(code=413):
            return TooLarge(error.message)
        case kube.ApiError():
            seconds = math.ceil(error.retry_after or RETRY_SECONDS)
            return Unavailable(f"Kubernetes cannot do it now: {error.message}", retry_after=seconds)
        case _:
            return Unavailable(f"Kubernetes is not available: {error}")
