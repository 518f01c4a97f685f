"""Kubernetes' protobuf documents read into JSON form: kubectl's `create` subcommands send them. Answers are JSON."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_runtime.local.apiserver.schema import (
    Amount,
    Binary,
    Boolean,
    Integer,
    IntOrText,
    Mapping,
    Node,
    Sequence,
    Struct,
    Text,
    Time,
)

_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Fields = dict[int, list[Any]]
FindNode = Callable[[str, str], Node | None]


class NotProtobuf(Exception):
    """The bytes are not a protobuf document, or the kind has no protobuf form."""


def decode_document(body: bytes, find: FindNode) -> dict[str, Any]:
    """The document in a protobuf envelope."""
    if not body.startswith(_MAGIC):
        raise NotProtobuf("no Kubernetes envelope")
    try:
        envelope = _fields(body[len(_MAGIC) :])
        meta = _fields(_last(envelope, 1, b""))
        api_version, kind = _last(meta, 1, b"").decode(), _last(meta, 2, b"").decode()
        node = find(api_version, kind)
        if not isinstance(node, Struct):
            raise NotProtobuf(f"no protobuf form of {kind} in {api_version} is known")
        found = _struct(_last(envelope, 2, b""), node)
    except (IndexError, UnicodeDecodeError, ValueError, TypeError, struct.error, OverflowError) as error:
        raise NotProtobuf(str(error)) from None
    return {**found, "apiVersion": api_version, "kind": kind}


def _fields(data: bytes) -> Fields:
    found: Fields = {}
    for number, value in _scan(data):
        found.setdefault(number, []).append(value)
    return found


def _scan(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, struct.unpack_from("<d", data, at)[0]
                at += 8
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise NotProtobuf("unexpected end of input")
                yield tag >> 3, data[at : at + size]
                at += size
            case 5:
                yield tag >> 3, struct.unpack_from("<f", data, at)[0]
                at += 4
            case other:
                raise NotProtobuf(f"unknown wire type {other}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise NotProtobuf("varint is too long")


def _last(fields: Fields, number: int, default: Any) -> Any:
    return fields[number][-1] if number in fields else default


def _struct(data: bytes, node: Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    nested: dict[int, Fields] = {}
    fields = _fields(data)
    for name, field in node.fields.items():
        outer, _, inner = field.number.rpartition(".")
        source = fields
        if outer:
            if int(outer) not in nested:
                nested[int(outer)] = _fields(_last(fields, int(outer), b""))
            source = nested[int(outer)]
        if inner and int(inner) in source:
            found[name] = _value(source[int(inner)], field.node)
    return found


def _value(values: list[Any], node: Node) -> Any:
    if isinstance(node, Sequence):
        return [_one(value, node.items) for value in values]
    if isinstance(node, Mapping):
        entries = [_fields(value) for value in values]
        return {_last(entry, 1, b"").decode(): _one(_last(entry, 2, b""), node.values) for entry in entries}
    return _one(values[-1], node)


def _one(value: Any, node: Node) -> Any:
    match node:
        case Struct():
            return _struct(value, node)
        case Text():
            return value.decode()
        case Boolean():
            return bool(value)
        case Integer():
            return value - 2**64 if value >= 2**63 else value
        case Binary():
            return base64.b64encode(value).decode()
        case Amount():
            return _last(_fields(value), 1, b"0").decode()
        case IntOrText():
            parts = _fields(value)
            return _last(parts, 3, b"").decode() if _last(parts, 1, 0) else _one(_last(parts, 2, 0), Integer("int32"))
        case Time():
            parts = _fields(value)
            if not parts:
                return None
            seconds = _one(_last(parts, 1, 0), Integer("int64"))
            moment = _EPOCH + timedelta(seconds=seconds, microseconds=_last(parts, 2, 0) // 1000)
            return moment.isoformat(timespec=node.spec).replace("+00:00", "Z")
        case Sequence() | Mapping():
            raise NotProtobuf("a list of lists")
    return value if not isinstance(value, bytes) else None
