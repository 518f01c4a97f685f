"""Spans of time as kubectl shows them."""

from __future__ import annotations

from datetime import datetime


def human(seconds: float) -> str:
    """`45s`, `3m10s`, `5h20m`, `2d3h`, `400d`: two units at most, one where the second says little."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 365 * 8 else f"{days // 365}y"


def _two(first: int, unit: str, second: int, small: str) -> str:
    return f"{first}{unit}{second}{small}" if second else f"{first}{unit}"


def since(timestamp: str | None, now: datetime) -> str:
    """How long ago a timestamp was."""
    if not timestamp:
        return "<unknown>"
    return human((now - datetime.fromisoformat(timestamp)).total_seconds())
