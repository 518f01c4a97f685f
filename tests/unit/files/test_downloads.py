"""Whole files and parts of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.files.errors import Incomplete
from gpu_runtime.files.volume import Volume
from unit.files.world import PREFIX, Answer, fetch, serving

CONTENT = bytes(range(100))
FILE = f"{PREFIX}/file.bin"
LONG_AGO, MODIFIED, LATER = (
    "Tue, 14 Nov 2000 00:00:00 GMT",
    "Tue, 14 Nov 2023 22:13:20 GMT",
    "Fri, 14 Nov 2025 00:00:00 GMT",
)

RANGES: dict[str, tuple[str, int, bytes]] = {
    "the beginning": ("bytes=0-9", 206, CONTENT[:10]),
    "one byte": ("bytes=0-0", 206, CONTENT[:1]),
    "the last byte": ("bytes=99-99", 206, CONTENT[99:]),
    "the middle": ("bytes=40-59", 206, CONTENT[40:60]),
    "open end": ("bytes=90-", 206, CONTENT[90:]),
    "all of it": ("bytes=0-", 206, CONTENT),
    "past the end": ("bytes=90-1000", 206, CONTENT[90:]),
    "the last ten": ("bytes=-10", 206, CONTENT[90:]),
    "more than there is, from the end": ("bytes=-1000", 206, CONTENT),
    "upper case and spaces": ("Bytes = 1 - 2", 206, CONTENT[1:3]),
    "begins at the end": ("bytes=100-", 416, b""),
    "begins after the end": ("bytes=1000-2000", 416, b""),
    "the last nothing": ("bytes=-0", 416, b""),
    "backwards": ("bytes=9-0", 200, CONTENT),
    "several": ("bytes=0-1,5-6", 200, CONTENT),
    "another unit": ("lines=0-1", 200, CONTENT),
    "no numbers": ("bytes=-", 200, CONTENT),
    "letters": ("bytes=a-b", 200, CONTENT),
    "negative": ("bytes=--5", 200, CONTENT),
    "digits of another script": ("bytes=٠-٩", 200, CONTENT),
    "a number of 5,000 digits": ("bytes=0-" + "9" * 5000, 200, CONTENT),
    "empty": ("", 200, CONTENT),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file.bin").write_bytes(CONTENT)
    os.utime(tmp_path / "file.bin", (1_700_000_000, 1_700_000_000))
    (tmp_path / "empty").touch()
    return tmp_path


@pytest.mark.parametrize(("wanted", "status", "body"), RANGES.values(), ids=RANGES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_range_is_answered_with_exactly_its_bytes(
    folder: Path, method: str, wanted: str, status: int, body: bytes
) -> None:
    async with serving(folder) as port:
        answer = await fetch(port, FILE, method, Range=wanted)
    assert answer.status == status
    assert answer.body == (body if method == "GET" else b"")
    assert answer.headers.get("content-length", "0") == str(len(body))
    assert answer.headers["accept-ranges"] == "bytes"
    if status == 206:
        start = CONTENT.index(body)
        assert answer.headers["content-range"] == f"bytes {start}-{start + len(body) - 1}/100"
    elif status == 416:
        assert answer.headers["content-range"] == "bytes */100"
    else:
        assert "content-range" not in answer.headers


async def test_an_empty_file_is_served_and_has_no_range(folder: Path) -> None:
    async with serving(folder) as port:
        whole = await fetch(port, f"{PREFIX}/empty")
        assert (whole.status, whole.body, whole.headers["content-length"]) == (200, b"", "0")
        assert (await fetch(port, f"{PREFIX}/empty", Range="bytes=0-0")).status == 416


CONDITIONS: dict[str, tuple[dict[str, str], int]] = {
    "the tag is known": ({"If_None_Match": "{etag}"}, 304),
    "a weak tag is known": ({"If_None_Match": "W/{etag}"}, 304),
    "one of several is known": ({"If_None_Match": '"x", {etag}'}, 304),
    "anything is known": ({"If_None_Match": "*"}, 304),
    "another is known": ({"If_None_Match": '"x"'}, 200),
    "not modified since": ({"If_Modified_Since": MODIFIED}, 304),
    "modified since": ({"If_Modified_Since": LONG_AGO}, 200),
    "the tag wins over the date": ({"If_None_Match": '"x"', "If_Modified_Since": LATER}, 200),
    "no date": ({"If_Modified_Since": "yesterday"}, 200),
    "must be this": ({"If_Match": "{etag}"}, 200),
    "must be another": ({"If_Match": '"x"'}, 412),
    "must be anything": ({"If_Match": "*"}, 200),
    "must be this, weakly": ({"If_Match": "W/{etag}"}, 412),
    "must not be newer": ({"If_Unmodified_Since": LONG_AGO}, 412),
    "is not newer": ({"If_Unmodified_Since": MODIFIED}, 200),
    "range of this content": ({"Range": "bytes=0-0", "If_Range": "{etag}"}, 206),
    "range of this date": ({"Range": "bytes=0-0", "If_Range": MODIFIED}, 206),
    "range of another content": ({"Range": "bytes=0-0", "If_Range": '"x"'}, 200),
    "range of a weak tag": ({"Range": "bytes=0-0", "If_Range": "W/{etag}"}, 200),
    "range of an older date": ({"Range": "bytes=0-0", "If_Range": LONG_AGO}, 200),
    "range of a later date": ({"Range": "bytes=0-0", "If_Range": LATER}, 200),
    "range of nonsense": ({"Range": "bytes=0-0", "If_Range": "nonsense"}, 200),
}


@pytest.mark.parametrize(("headers", "status"), CONDITIONS.values(), ids=CONDITIONS)
async def test_a_condition_on_the_content_is_kept(folder: Path, headers: dict[str, str], status: int) -> None:
    async with serving(folder) as port:
        etag = (await fetch(port, FILE, "HEAD")).headers["etag"]
        given = {name: value.format(etag=etag) for name, value in headers.items()}
        answer = await fetch(port, FILE, **given)
    assert answer.status == status
    assert answer.body == {200: CONTENT, 206: CONTENT[:1]}.get(status, b"")
    assert answer.headers["last-modified"] == MODIFIED


async def test_the_tag_changes_with_the_content_even_if_size_and_time_stay(folder: Path) -> None:
    async def tag() -> str:
        return (await fetch(port, FILE, "HEAD")).headers["etag"]

    async with serving(folder) as port:
        before = await tag()
        assert await tag() == before
        (folder / "file.bin").write_bytes(bytes(100))
        os.utime(folder / "file.bin", (1_700_000_000, 1_700_000_000))
        assert await tag() != before


async def test_a_time_that_no_calendar_has_is_left_out(folder: Path) -> None:
    os.utime(folder / "file.bin", (1 << 40, 1 << 40))
    async with serving(folder) as port:
        answer = await fetch(port, FILE, If_Range=MODIFIED, Range="bytes=0-0", If_Modified_Since=MODIFIED)
        listed = await fetch(port, f"{PREFIX}/")
    if os.stat(folder / "file.bin").st_mtime == 1 << 40:  # noqa: PTH116  some file systems store no such time
        assert "last-modified" not in answer.headers
    assert (answer.status, answer.body) == (200, CONTENT)
    assert listed.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "MKCOL"])
async def test_nothing_but_reading_is_allowed(folder: Path, method: str) -> None:
    async with serving(folder) as port:
        answer = await fetch(port, FILE, method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert (folder / "file.bin").read_bytes() == CONTENT


@mutant("files/volume.py", "if not piece:", "if False:")
async def test_a_file_that_becomes_shorter_is_cut_off_and_does_not_look_complete(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    volume = Volume(tmp_path)
    file = volume.open([b"file"])
    (tmp_path / "file").write_bytes(b"x")
    assert file.read(10, 0) == b"x"
    with pytest.raises(Incomplete):
        file.read(9, 1)
    file.close()
    volume.close()


async def test_only_names_of_the_machine_are_answered_on_loopback(folder: Path) -> None:
    async with serving(folder, hosts=frozenset({"localhost"})) as port:
        assert (await fetch(port, FILE, Host="localhost:1")).status == 200
        answer: Answer = await fetch(port, FILE, Host="evil.example")
        assert (answer.status, CONTENT in answer.body) == (403, False)
        assert (await fetch(port, "/healthz", Host="10.0.0.1")).status == 200
