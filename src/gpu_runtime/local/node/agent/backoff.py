"""Back-off as in the kubelet, for crashing containers and failing image pulls."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 10.0
MOST_SECONDS = 300.0
FORGET_SECONDS = 2 * MOST_SECONDS


@dataclass
class _Entry:
    delay: float
    updated: float


class Backoff:
    """The first retry is at once, then after 10 s, 20 s, ... 5 min; ten minutes without a failure reset it."""

    def __init__(self, first: float = FIRST_SECONDS, most: float = MOST_SECONDS) -> None:
        self._first, self._most = first, most
        self._entries: dict[str, _Entry] = {}

    def left(self, key: str, failed_at: float, now: float) -> float:
        """Seconds that still have to pass since `failed_at`; 0 when it may be tried."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.updated > FORGET_SECONDS:
            return 0.0
        return max(0.0, failed_at + entry.delay - now)

    def delay(self, key: str) -> float:
        """The current delay of the key, for messages."""
        return self._entries[key].delay if key in self._entries else 0.0

    def tried(self, key: str, failed_at: float, now: float) -> None:
        """Records a retry: the next failure waits longer."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.updated > FORGET_SECONDS:
            self._entries[key] = _Entry(self._first, now)
        else:
            self._entries[key] = _Entry(min(entry.delay * 2, self._most), now)

    def forget(self, prefix: str) -> None:
        """Resets all keys that begin with `prefix`."""
        for key in [key for key in self._entries if key.startswith(prefix)]:
            del self._entries[key]


def go_duration(seconds: float) -> str:
    """A duration as Kubernetes prints it: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
