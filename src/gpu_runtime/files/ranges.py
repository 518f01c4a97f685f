"""Which bytes of a file a request asks for (RFC 9110, sections 13 and 14). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from os import stat_result
from typing import NamedTuple

from gpu_runtime.files.listing import moment

# At most 18 digits: a longer number is no offset in a file, and is ignored like any malformed range.
_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


class Span(NamedTuple):
    """Bytes from `start`, up to `end` exclusive."""

    start: int
    end: int


class Unsatisfiable(Exception):
    """The range begins after the end of the file."""


@dataclass(frozen=True)
class Validators:
    """ETag and modification time: they change when the content of the file changes."""

    etag: str
    modified: datetime | None

    @classmethod
    def of(cls, info: stat_result) -> Validators:
        # Nobody can set ctime, so unlike mtime it changes with every change of the content.
        return cls(f'"{info.st_ino:x}-{info.st_size:x}-{info.st_ctime_ns:x}"', moment(info.st_mtime))

    @property
    def last_modified(self) -> str:
        return format_datetime(self.modified, usegmt=True) if self.modified else ""

    def is_same(self, if_range: str) -> bool:
        """Whether If-Range names this content. A weak tag never matches."""
        if if_range.startswith(('"', "W/")):
            return if_range == self.etag
        return self.modified is not None and date(if_range) == self.modified


def span(header: str, size: int) -> Span | None:
    """The single range that the header names; None for the whole file.

    A header that is malformed, of another unit or of several ranges is ignored, as RFC 9110 allows.
    """
    found = _RANGE.fullmatch(header)
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        length = min(int(last), size)
        if length == 0:
            raise Unsatisfiable
        return Span(size - length, size)
    start, end = int(first), int(last) + 1 if last else size
    if last and end <= start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Span(start, min(end, size))


def date(text: str) -> datetime | None:
    """The HTTP date in the text; None if it is not a date."""
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def precondition(headers: Mapping[str, str], content: Validators) -> int | None:
    """304 or 412 when a condition of the request says so; None to go on. In the order of RFC 9110, section 13.2.2."""
    changed = content.modified
    if (wanted := headers.get("If-Match")) is not None:
        if not _names(wanted, content.etag):
            return 412
    elif (
        changed is not None and (limit := date(headers.get("If-Unmodified-Since", ""))) is not None and changed > limit
    ):
        return 412
    if (known := headers.get("If-None-Match")) is not None:
        return 304 if _names(known.replace("W/", ""), content.etag) else None
    since = date(headers.get("If-Modified-Since", ""))
    return 304 if since is not None and changed is not None and changed <= since else None


def _names(tags: str, etag: str) -> bool:
    return etag in (each.strip() for each in tags.split(",")) or tags.strip() == "*"
