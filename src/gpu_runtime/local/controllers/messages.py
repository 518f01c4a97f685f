"""Messages of the API server and of pods, for events and conditions."""

from __future__ import annotations

from gpu_runtime.kube.errors import ApiError


def server_message(error: ApiError) -> str:
    """The server's message, without our description of the request."""
    return error.message.partition(": ")[2] or error.message


def namespace_is_going(error: ApiError) -> bool:
    """Whether a create failed because its namespace is being deleted, which is not a problem."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
