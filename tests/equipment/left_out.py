"""Prints how many tests a run left out, and why. A person reads these lines, and CI fails on them."""

from __future__ import annotations

from collections import Counter

import pytest


def lines(skipped: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """One line for each reason for which tests were skipped."""
    reasons = Counter(reason_of(report) for report in skipped)
    return [
        f"{count} {'test was' if count == 1 else 'tests were'} left out: {reason}" for reason, count in reasons.items()
    ]


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """pytest reports a skip as file, line and `Skipped: REASON`."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")
