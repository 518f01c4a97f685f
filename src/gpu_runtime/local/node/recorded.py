"""Reads files that an earlier agent of this node, or a shim, wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

T = TypeVar("T")


def recorded(path: Path, kind: type[T]) -> T | None:
    """The content of the file; None when it does not exist, and, with a warning, when it cannot be decoded."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        structlog.get_logger("node").warning("a record cannot be read and is not used", path=str(path), why=str(error))
        return None
