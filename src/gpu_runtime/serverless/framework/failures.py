"""The words for an exception of the user's function."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from gpu_runtime.serverless.framework.calls import BadInput

LONGEST = 4000
_NOT_THE_USERS = (str(Path(__file__).parent), str(Path(os.__file__).parent), "<frozen")


def status_of(error: BaseException) -> int:
    return 400 if isinstance(error, BadInput) else 500


def words(error: BaseException) -> str:
    """The exception's own words and the last line of the user's code that led to it. Folders are left out."""
    said = str(error) if isinstance(error, BadInput) and str(error) else f"{type(error).__name__}: {error}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS) and "site-packages" not in frame.filename
    ]
    where = f" ({Path(frames[-1].filename).name} line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return said.rstrip(": ")[:LONGEST] + where
