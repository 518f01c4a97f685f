"""Logs: lines for people on a terminal, JSON for everything else."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog

# Without the values of local variables: a token may be among them.
_TRACES = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Every structlog logger of the process writes to `stream` (standard error) from `level` on."""
    out = stream or sys.stderr
    people = out.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if people
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if people else "iso", utc=not people),
            *([] if people else [_TRACES]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Lines(out),
        cache_logger_on_first_use=False,
    )


class _Lines(structlog.PrintLogger):
    """Writes a line for each message. A line that the disk refuses is lost: a full disk must not end the process."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg
