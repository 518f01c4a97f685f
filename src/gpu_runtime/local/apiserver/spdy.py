"""The frames of SPDY/3.1 that a port-forward needs: streams that are opened, answered, written, ended and reset."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1
REFUSED, CANCEL = 3, 5
VERSION = 3
LARGEST_FRAME = 1 << 20
LARGEST_HEADERS = 1 << 16

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
_CODES = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
_TAIL = (
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug"
    " Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _text(word: str) -> bytes:
    return struct.pack(">I", len(word.encode())) + word.encode()


DICTIONARY = b"".join(_text(word.replace("_", " ")) for word in _WORDS.split()) + (_CODES + _TAIL).encode()
"""The dictionary of header compression; SPDY/3 defines every byte of it."""


class BadFrame(Exception):
    """The other side does not speak this protocol."""


@dataclass(frozen=True)
class Frame:
    """One frame; `kind` 0 is a data frame."""

    kind: int
    stream: int
    flags: int = 0
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        return bool(self.flags & FIN)


class Decoder:
    """Turns bytes into frames. Compressed headers depend on all earlier headers, so no frame may be skipped."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._unread += data
        while len(self._unread) >= 8:
            first, rest = struct.unpack(">II", self._unread[:8])
            flags, size = rest >> 24, rest & 0xFFFFFF
            if size > LARGEST_FRAME:
                raise BadFrame(f"a frame of {size} bytes")
            if len(self._unread) < 8 + size:
                return
            body = bytes(self._unread[8 : 8 + size])
            del self._unread[: 8 + size]
            if first >> 31:
                yield self._control(first, flags, body)
            else:
                yield Frame(0, first, flags, body)

    def _control(self, first: int, flags: int, body: bytes) -> Frame:
        kind = first & 0xFFFF
        if (first >> 16) & 0x7FFF != VERSION:
            raise BadFrame("another version of the protocol")
        number = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        if kind != SYN_STREAM:
            return Frame(kind, number, flags, body)
        if len(body) < 10:
            raise BadFrame("a stream without an identity")
        return Frame(kind, number, flags, headers=self._headers(body[10:]))

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, LARGEST_HEADERS)
            if self._inflate.unconsumed_tail:
                raise BadFrame("too many headers")
            (count,) = struct.unpack_from(">I", plain)
            texts, at = [], 4
            for _ in range(2 * count):
                (size,) = struct.unpack_from(">I", plain, at)
                texts.append(plain[at + 4 : at + 4 + size].decode())
                at += 4 + size
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise BadFrame(f"headers that cannot be read: {error}") from error
        return dict(zip(texts[::2], texts[1::2], strict=True))


class Encoder:
    """Turns frames into bytes."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """SYN_REPLY without headers: the stream is open."""
        none = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, struct.pack(">I", stream) + none)


def data(stream: int, content: bytes, *, last: bool = False) -> bytes:
    return struct.pack(">II", stream, (FIN if last else 0) << 24 | len(content)) + content


def reset(stream: int, why: int) -> bytes:
    return _control(RST_STREAM, struct.pack(">II", stream, why))


def ping(number: int) -> bytes:
    return _control(PING, struct.pack(">I", number))


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">II", 1 << 31 | VERSION << 16 | kind, len(body)) + body
