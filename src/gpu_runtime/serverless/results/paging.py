"""Page tokens: where a list stopped, and of which list it is."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, TypeVar

import msgspec

from gpu_runtime.serverless.results.base import DeadLetterQuery, InvalidPageToken, RunQuery

T = TypeVar("T")


class RunPosition(NamedTuple):
    """The last item of a page of runs."""

    accepted_at: int
    namespace: str
    function: str
    id: str
    run: int


class DeadLetterPosition(NamedTuple):
    """The last item of a page of dead letters."""

    failed_at: int
    letter: str


def encode(query: RunQuery | DeadLetterQuery, position: RunPosition | DeadLetterPosition) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([_filters(query), position])).decode().rstrip("=")


def decode(query: RunQuery | DeadLetterQuery, position: type[T]) -> T | None:
    """The position in the query's token; None without a token."""
    if query.token is None:
        return None
    try:
        text = base64.b64decode(query.token + "=" * (-len(query.token) % 4), b"-_", validate=True)
        filters, where = msgspec.json.decode(text, type=tuple[str, position])  # type: ignore[valid-type]
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise InvalidPageToken("the page token is not one that a list gave") from error
    if filters != _filters(query):
        raise InvalidPageToken("the page token belongs to a list with other filters")
    return where


def _filters(query: RunQuery | DeadLetterQuery) -> str:
    """Every field that decides what is in the list; the size of a page may change."""
    fields = {
        name: value for name, value in vars(query).items() if name not in {"limit", "token"} and value is not None
    }
    return msgspec.json.encode(fields).decode()
