"""Messages of the API server and of pods, for events and conditions."""

from __future__ import annotations

from gpu_runtime.kube.errors import ApiError


def server_words(error: ApiError) -> str:
    """What the server said, without what we were doing."""
    return error.message.partition(": ")[2] or error.message


def namespace_is_going(error: ApiError) -> bool:
    """The namespace takes nothing new: what it holds is about to go, and nothing is amiss."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
