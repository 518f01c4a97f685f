"""Settings that every process has."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Log(Struct, frozen=True, kw_only=True):
    """How much is logged. Lines are JSON, or plain text on a terminal."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Health(Struct, frozen=True, kw_only=True):
    """Where /healthz, /readyz and /metrics are served."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0 takes any free port.")] = 8081
