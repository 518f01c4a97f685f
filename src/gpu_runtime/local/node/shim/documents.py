"""JSON documents that a crash at any moment leaves either old or new, never half."""

from __future__ import annotations

import json
import os
from typing import Any


def read(path: str) -> Any:
    with open(path, "rb") as file:
        return json.load(file)


def write(path: str, document: object) -> None:
    """Replaces the document at `path` as a whole."""
    write_bytes(path, json.dumps(document).encode())


def write_bytes(path: str, content: bytes) -> None:
    draft = f"{path}.draft"
    descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
    os.replace(draft, path)
