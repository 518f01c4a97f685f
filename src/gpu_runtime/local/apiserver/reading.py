"""Get and list: at a version, by selector, in consistent pages."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import NamedTuple

import msgspec

from gpu_runtime.local.apiserver.errors import Status, bad_request, gone
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.options import ReadOptions
from gpu_runtime.local.apiserver.records import Record, encode
from gpu_runtime.local.apiserver.selectors import Matcher
from gpu_runtime.local.apiserver.store import Compacted, Store


class Page(NamedTuple):
    """One answer to a list."""

    version: int
    records: list[Record]
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, object]:
        found: dict[str, object] = {"resourceVersion": str(self.version)}
        if self.token:
            found["continue"] = self.token
        if self.remaining is not None:
            found["remainingItemCount"] = self.remaining
        return found


class _Token(msgspec.Struct):
    rv: int
    start: str


def _pack(version: int, start: str) -> str:
    return base64.urlsafe_b64encode(encode(_Token(version, start))).decode().rstrip("=")


def _unpack(token: str) -> _Token:
    try:
        padded = token + "=" * (-len(token) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise bad_request("continue key is not valid: encoding error") from None


async def wait_for_version(store: Store, version: int) -> None:
    """Waits until the store has reached `version`; refuses a future version after a while."""
    deadline = asyncio.get_running_loop().time() + 3
    while store.version < version:
        if asyncio.get_running_loop().time() > deadline:
            message = f"Too large resource version: {version}, current: {store.version}"
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            raise Status(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}, {"Retry-After": "1"})
        await asyncio.sleep(0.05)


async def list_page(store: Store, kind: Kind, namespace: str, options: ReadOptions, matches: Matcher | None) -> Page:
    """The records that a list asks for."""
    prefix = kind.prefix_of(namespace)
    start = ""
    if options.token:
        if options.version:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _unpack(options.token)
        version, start = token.rv, token.start
        if version < 0:
            version = store.version
    else:
        version = options.version or 0
        await wait_for_version(store, version)
        exact = options.match == "Exact" or (options.limit and version and not options.match)
        version = version if exact else store.version
    try:
        records = store.list_at(kind.resource, prefix, version)
    except Compacted as error:
        raise _expired(error, start) from None
    if start:
        records = [record for record in records if record.key > start]
    if options.limit <= 0:
        return Page(version, records if matches is None else [record for record in records if matches(record)])
    return _first(records, options.limit, version, matches)


def _first(records: list[Record], limit: int, version: int, matches: Matcher | None) -> Page:
    """The first `limit` matching records. The page has a continue token if any record is left, matching or not."""
    kept: list[Record] = []
    for at, record in enumerate(records, 1):
        if matches is None or matches(record):
            kept.append(record)
        if len(kept) == limit and at < len(records):
            return Page(version, kept, _pack(version, record.key), len(records) - at if matches is None else None)
    return Page(version, kept)


def _expired(error: Compacted, start: str) -> Status:
    if not start:
        return gone(f"The resourceVersion for the provided list is too old ({error.asked} < {error.oldest}).")
    status = gone(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    status.token = _pack(-1, start)
    return status


def list_body(kind: Kind, page: Page) -> bytes:
    """The list as JSON; items of custom kinds name their kind, those of built-in kinds do not."""
    items = [kind.wire(record) for record in page.records] if kind.custom else [record.body for record in page.records]
    head = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.api_version}","metadata":'.encode()
    metadata = {"continue": "", **page.metadata()} if kind.custom else page.metadata()
    return head + encode(metadata) + b',"items":[' + b",".join(items) + b"]}"
