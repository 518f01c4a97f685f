"""Frames of SPDY/3.1: what a client sends is read, and what is no frame is refused."""

from __future__ import annotations

import hashlib
import struct
import zlib

import pytest

from gpu_runtime.local.apiserver import spdy

PUBLISHED = "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02"


class Client:
    """Compresses headers as a client does: all of a connection in one stream."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=spdy.DICTIONARY)

    def opened(self, stream: int, **headers: str) -> bytes:
        block = struct.pack(">I", len(headers))
        for pair in headers.items():
            for text in pair:
                block += struct.pack(">I", len(text)) + text.encode()
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(spdy.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + packed)


def control(kind: int, body: bytes, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, len(body)) + body


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert hashlib.sha256(spdy.DICTIONARY).hexdigest() == PUBLISHED


def test_frames_are_read_however_they_are_cut() -> None:
    client = Client()
    sent = client.opened(1, streamtype="error", port="80") + client.opened(3, streamtype="data", port="80")
    sent += spdy.data(3, b"hello") + spdy.data(3, b"", last=True) + spdy.ping(7) + spdy.reset(1, spdy.CANCEL)
    for size in (1, 3, 8, len(sent)):
        decoder = spdy.Decoder()
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        frames = [frame for piece in pieces for frame in decoder.feed(piece)]
        assert [(frame.kind, frame.stream, frame.last) for frame in frames] == [
            (spdy.SYN_STREAM, 1, False),
            (spdy.SYN_STREAM, 3, False),
            (0, 3, False),
            (0, 3, True),
            (spdy.PING, 7, False),
            (spdy.RST_STREAM, 1, False),
        ]
        assert frames[1].headers == {"streamtype": "data", "port": "80"}
        assert frames[2].data == b"hello"


def test_replies_share_one_compression() -> None:
    encoder, inflate = spdy.Encoder(), zlib.decompressobj(zdict=spdy.DICTIONARY)
    for stream in (1, 3, 5):
        reply = encoder.reply(stream)
        assert reply[:4] == struct.pack(">HH", 0x8003, spdy.SYN_REPLY)
        assert struct.unpack(">I", reply[8:12]) == (stream,)
        assert inflate.decompress(reply[12:]) == struct.pack(">I", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        control(spdy.SYN_STREAM, b"short"),
        control(spdy.SYN_STREAM, bytes(10) + b"not compressed"),
        control(spdy.PING, bytes(4), version=2),
        struct.pack(">II", 1, spdy.LARGEST_FRAME + 1),
        b"GET / HTTP/1.1\r\n\r\n" * 100_000,
        Client().opened(1, a="x" * (spdy.LARGEST_HEADERS + 1)),
    ],
    ids=["no identity", "no compression", "version", "size", "another protocol", "too many headers"],
)
def test_what_is_no_frame_is_refused(wrong: bytes) -> None:
    with pytest.raises(spdy.BadFrame):
        list(spdy.Decoder().feed(wrong))


def test_more_headers_are_promised_than_there_are() -> None:
    deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
    block = deflate.compress(struct.pack(">I", 1 << 31)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(spdy.BadFrame):
        list(spdy.Decoder().feed(control(spdy.SYN_STREAM, bytes(10) + block)))
