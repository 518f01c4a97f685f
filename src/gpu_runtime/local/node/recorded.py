"""What the node has written down for its successors."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

T = TypeVar("T")


def recorded(path: Path, kind: type[T]) -> T | None:
    """None where nothing was written, and for what cannot be read: that is said, and made anew."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        structlog.get_logger("node").warning("a record cannot be read and is not used", path=str(path), why=str(error))
        return None
