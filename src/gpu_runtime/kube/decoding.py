"""Bytes to typed objects. One object that cannot be read never hides the others."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.errors import Status, Unreadable, error_from_status
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)


class _Name(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class _Anything(msgspec.Struct, frozen=True):
    """As much of an unreadable object as is needed to name it."""

    metadata: _Name = _Name()


class _ListMeta(msgspec.Struct, frozen=True):
    resourceVersion: str = ""
    token: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _WatchLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_LIST = msgspec.json.Decoder(_List)
_STATUS = msgspec.json.Decoder(Status)
_ANYTHING = msgspec.json.Decoder(_Anything)
WATCH_LINE = msgspec.json.Decoder(_WatchLine)


@dataclass(frozen=True)
class Skipped:
    """An object that exists and cannot be read."""

    key: Key
    resource_version: str
    problem: str


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """One change. A bookmark has no object; what cannot be read is `skipped`."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    key: Key
    resource_version: str
    object: T | None = None
    skipped: Skipped | None = None


@dataclass
class Page(Generic[T]):
    items: list[T]
    skipped: list[Skipped]
    resource_version: str
    token: str | None

    @classmethod
    def decode(cls, resource: Resource[T], body: bytes) -> Page[T]:
        envelope = _LIST.decode(body)
        page = cls([], [], envelope.metadata.resourceVersion, envelope.metadata.token)
        decoder = decoder_of(resource.struct)
        for raw in envelope.items or ():
            try:
                page.items.append(decoder.decode(raw))
            except msgspec.MsgspecError as error:
                page.skipped.append(_skipped(resource, raw, error))
        return page


@dataclass
class Listing(Generic[T]):
    """All pages of one list, read at one resourceVersion."""

    items: list[T] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    resource_version: str = ""

    def add(self, page: Page[T]) -> None:
        self.items += page.items
        self.skipped += page.skipped
        self.resource_version = page.resource_version


@cache
def decoder_of(struct: type[Any]) -> msgspec.json.Decoder[Any]:
    """One decoder a type: making it costs more than using it."""
    return msgspec.json.Decoder(struct)


def decode_object(resource: Resource[T], body: bytes) -> T:
    """One object; Unreadable names it and the field at fault."""
    try:
        return decoder_of(resource.struct).decode(body)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as error:
        raise Unreadable(_skipped(resource, msgspec.Raw(body), error).problem) from error


def decode_event(resource: Resource[T], line: _WatchLine) -> WatchEvent[T]:
    """One line of a watch. An ERROR event inside a stream that began with 200 is raised as the error that it is."""
    match line.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            try:
                obj: T = decoder_of(resource.struct).decode(line.object)
            except msgspec.MsgspecError as error:
                skipped = _skipped(resource, line.object, error)
                return WatchEvent(line.type, skipped.key, skipped.resource_version, skipped=skipped)
            return WatchEvent(line.type, obj.metadata.key, obj.metadata.resourceVersion, obj)
        case "BOOKMARK":
            meta = _ANYTHING.decode(line.object).metadata
            return WatchEvent("BOOKMARK", Key("", ""), meta.resourceVersion)
        case "ERROR":
            raise error_from_status(_STATUS.decode(line.object), subject=f"watch {resource.qualified_name}")
        case other:
            raise Unreadable(f"watch {resource.qualified_name}: unknown event type {other!r}")


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Whole lines of a stream; an object may be larger than any read buffer."""
    rest = b""
    async for chunk in chunks:
        *lines, tail = chunk.split(b"\n")
        if not lines:
            rest += tail
            continue
        lines[0] = rest + lines[0]
        rest = tail
        for line in lines:
            if line:
                yield line


def _skipped(resource: Resource[Any], raw: msgspec.Raw, error: msgspec.MsgspecError) -> Skipped:
    try:
        meta = _ANYTHING.decode(raw).metadata
    except msgspec.MsgspecError:
        meta = _Name()
    key = Key(meta.namespace, meta.name)
    problem = f"{resource.kind} {key}: cannot be read and is left alone: {_field_first(str(error))}"
    return Skipped(key, meta.resourceVersion, problem)


def _field_first(message: str) -> str:
    # msgspec ends with "- at `$.spec.gpu`"; people look for the field first.
    text, at, path = message.rpartition(" - at `$.")
    return f"{path.rstrip('`')}: {text}" if at else message
