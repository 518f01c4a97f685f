"""The server's log. A healthy server logs nothing, so the first line loads the library."""

from __future__ import annotations

from typing import Any


def refused(event: str, **facts: Any) -> None:
    """Logs a problem of the machine, such as a full disk. No traceback: there may be many lines, and it is slow."""
    import structlog  # noqa: PLC0415

    structlog.get_logger().error(event, **facts)


def failed(event: str, **facts: Any) -> None:
    """Logs an error that should not happen, with the traceback of the current exception."""
    import structlog  # noqa: PLC0415 - 50 ms of start-up that most runs never need

    structlog.get_logger().error(event, exc_info=True, **facts)
