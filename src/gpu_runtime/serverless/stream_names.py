"""The names of the broker's streams. This module does not load the client of the broker, which is slow."""

from __future__ import annotations

INVOCATIONS = "INVOCATIONS"
RESULTS = "RESULTS"
BODIES = "BODIES"
