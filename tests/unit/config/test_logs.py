"""Logs: JSON for machines, lines for people, nothing below the level."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from gpu_runtime import logs


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
