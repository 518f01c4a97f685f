"""The server's log: nothing while all is well, so the library is loaded with the first line."""

from __future__ import annotations

from typing import Any


def refused(event: str, **facts: Any) -> None:
    """Trouble of the machine, such as a full disk. One line without a trace: there may be many, and traces are slow."""
    import structlog  # noqa: PLC0415

    structlog.get_logger().error(event, **facts)


def failed(event: str, **facts: Any) -> None:
    """Something that should not happen, with the traceback of the exception that is being handled."""
    import structlog  # noqa: PLC0415 - 50 ms of start-up that most runs never need

    structlog.get_logger().error(event, exc_info=True, **facts)
