"""JSON documents between the agent and a pod's shim. No pod outlives the machine, so they need not be synced."""

from __future__ import annotations

import json
from typing import Any

from gpu_runtime.supervisor.files import write_private


def read(path: str) -> Any:
    with open(path, "rb") as file:
        return json.load(file)


def write(path: str, document: object) -> None:
    """Replaces the document at `path` as a whole."""
    write_bytes(path, json.dumps(document).encode())


def write_bytes(path: str, content: bytes) -> None:
    write_private(path, content, sync=False)
