"""Logs: JSON for machines, lines for people, nothing below the level."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from gpu_runtime import logs


class Filling(io.StringIO):
    """A file on a disk that is full at first."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def defaults_afterwards() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_lines_are_json_when_nobody_watches() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    structlog.get_logger("x").info("now", key="a/b")
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["key"]) == ("now", "info", "a/b")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_an_error_brings_its_trace_and_no_value_of_a_variable(stream: type[io.StringIO]) -> None:
    out = stream()
    logs.configure("info", out)
    token = "s3cret"
    try:
        raise ValueError(f"why, after {len(token)}")
    except ValueError:
        structlog.get_logger("x").exception("defect")
    assert "why, after 6" in out.getvalue()
    assert token not in out.getvalue()
    if stream is io.StringIO:
        assert json.loads(out.getvalue())["exception"][0]["exc_type"] == "ValueError"


def test_lines_are_for_people_on_a_terminal() -> None:
    out = Terminal()
    logs.configure("info", out)
    structlog.get_logger("x").info("now", key="a/b")
    assert "now" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_what_is_below_the_level_is_not_written() -> None:
    out = io.StringIO()
    logs.configure("warning", out)
    structlog.get_logger("x").info("now")
    assert out.getvalue() == ""


def test_a_line_that_the_disk_refuses_does_not_harm_who_wrote_it() -> None:
    with Path("/dev/full").open("w") as out:
        logs.configure("info", out)
        for level in ("info", "warning", "error", "exception"):
            getattr(structlog.get_logger("x"), level)("now")
        with suppress(OSError):
            out.close()  # what it buffers is refused once more


def test_lines_are_written_again_when_the_disk_has_room() -> None:
    out = Filling()
    logs.configure("info", out)
    structlog.get_logger("x").info("lost")
    out.full = False
    structlog.get_logger("x").info("kept")
    assert "kept" in out.getvalue()
