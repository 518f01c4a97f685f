"""Validates the seccomp profiles of pods and containers."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, required, wrong
from gpu_runtime.local.apiserver.records import Object


def seccomp_causes(profile: Object | None, field: str) -> list[Cause]:
    if profile is None:
        return []
    kind = profile.get("type", "")
    if not kind:
        return [required(f"{field}.type", "type is required when seccompProfile is set")]
    if kind == "Localhost" and not profile.get("localhostProfile"):
        return [required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost")]
    if kind != "Localhost" and profile.get("localhostProfile"):
        return [
            wrong(
                f"{field}.localhostProfile",
                profile["localhostProfile"],
                "can only be set when seccomp type is Localhost",
            )
        ]
    return []
