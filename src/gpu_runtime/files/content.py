"""Content-Type and Content-Disposition of a file. A browser never gets content that it would run."""

from __future__ import annotations

import mimetypes
import os
from typing import NamedTuple

from gpu_runtime.files.names import disposition

# Types that a browser shows without running anything. SVG and HTML can hold scripts. For video and audio, a browser
# requests the file a second time, which the proxy refuses (`Guard.admit_reading`).
SHOWN = frozenset({"application/json", "image/avif", "image/bmp", "image/gif", "image/jpeg", "image/png", "image/webp"})
_TYPES = mimetypes.MimeTypes()  # the built-in table: the same answers on every machine


class Content(NamedTuple):
    type: str
    disposition: str


def content_of(name: bytes) -> Content:
    """Text of every kind, HTML too, is shown as plain text; what is neither text nor in SHOWN is downloaded."""
    kind, encoding = _TYPES.guess_type(os.fsdecode(name).replace("/", "_"))
    if kind is not None and encoding is None:
        if kind.startswith("text/"):
            return Content("text/plain; charset=utf-8", disposition("inline", name))
        if kind in SHOWN:
            return Content(kind, disposition("inline", name))
    return Content("application/octet-stream", disposition("attachment", name))
