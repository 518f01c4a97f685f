"""Time, ids and randomness of the server, replaceable in tests."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def _suffix() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


@dataclass(frozen=True)
class Environment:
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    uid: Callable[[], str] = lambda: str(uuid.uuid4())
    suffix: Callable[[], str] = _suffix

    def timestamp(self) -> str:
        return stamp(self.now())


def stamp(moment: datetime) -> str:
    """A time as `metadata` carries it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
