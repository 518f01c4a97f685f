"""Where the generated manifests lie."""

from __future__ import annotations

from pathlib import Path

CONFIG = Path(__file__).resolve().parents[3] / "config"
