from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from equipment.mutation import mutant
from gpu_runtime.files import handler
from unit.files.world import PREFIX, a_volume, fetch, serving


async def listed(port: int, query: str = "?format=json", path: str = "/") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await fetch(port, f"{PREFIX}{path}{query}")).body)
    return found


async def test_a_folder_lists_its_entries_by_name_with_type_size_and_time(tmp_path: Path) -> None:
    volume = a_volume(tmp_path)
    (volume / "latest").symlink_to("models/small")
    for each in volume.iterdir():
        os.utime(each, (1_700_000_000, 1_700_000_000), follow_symlinks=False)
    async with serving(volume) as port:
        found = await listed(port)
    assert found["path"] == ""
    assert found["next"] is None
    assert [(each["name"], each["href"], each["type"], each.get("target")) for each in found["entries"]] == [
        ("latest", "./latest", "link", "models/small"),
        ("models", "./models/", "folder", None),
        ("notes.txt", "./notes.txt", "file", None),
    ]
    assert found["entries"][2]["size"] == 7
    assert found["entries"][2]["modified"] == "2023-11-14T22:13:20Z"


async def test_a_page_names_the_folders_above_it_and_links_the_archive(tmp_path: Path) -> None:
    async with serving(a_volume(tmp_path)) as port:
        answer = await fetch(port, f"{PREFIX}/models/small/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert b'<nav><a href="../../">data</a> / <a href="../">models</a> / <b>small</b></nav>' in answer.body
    assert b'<a href="?archive=tar">' in answer.body
    assert b"1.0 KiB" in answer.body
    assert b"<script" not in answer.body


@pytest.mark.parametrize(
    ("accept", "query", "kind"),
    [
        ("text/html,application/xhtml+xml,*/*;q=0.8", "", "text/html"),
        ("*/*", "", "text/html"),
        ("application/json", "", "application/json"),
        ("application/json, text/plain", "", "application/json"),
        ("application/json", "?format=html", "text/html"),
        ("text/html", "?format=json", "application/json"),
    ],
)
async def test_the_client_chooses_between_a_page_and_json(tmp_path: Path, accept: str, query: str, kind: str) -> None:
    async with serving(tmp_path) as port:
        answer = await fetch(port, f"{PREFIX}/{query}", Accept=accept)
    assert answer.headers["content-type"].partition(";")[0] == kind


async def test_a_large_folder_comes_in_pages_that_hold_every_name_once(tmp_path: Path) -> None:
    names = sorted([f"{number:05}" for number in range(2500)] + ["a b&c=d", "é"], key=os.fsencode)
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / os.fsdecode(b"\xff&\xfe")).touch()
    async with serving(tmp_path) as port:
        seen, query = [], "?format=json"
        while query:
            found = await listed(port, query)
            assert len(found["entries"]) <= 1000
            seen += [each["name"] for each in found["entries"]]
            query = found["next"]
        assert seen == [*names, "\\xff&\\xfe"]
        page = await fetch(port, f"{PREFIX}/")
        assert page.body.count(b"<tr>") == 1001
        assert b'<a href="?format=html&amp;limit=1000&amp;after=00999">next 1000 entries</a>' in page.body
        assert [each["name"] for each in (await listed(port, "?format=json&limit=2&after=00003"))["entries"]] == [
            "00004",
            "00005",
        ]


@mutant("files/handler.py", ', errors="surrogateescape"', "")
async def test_a_page_can_begin_after_any_name(tmp_path: Path) -> None:
    names = [b"a b&c=d+e%41", "é".encode(), "\u4e2d".encode(), b"\xfe", b"\xff&\xfe"]
    for name in names:
        (tmp_path / os.fsdecode(name)).touch()
    async with serving(tmp_path) as port:
        seen: list[str] = []
        query = "?format=json&limit=1"
        while query and len(seen) < len(names):
            found = await listed(port, query)
            seen += [each["href"] for each in found["entries"]]
            query = found["next"]
        assert [unquote_to_bytes(each.removeprefix("./")) for each in seen] == names
    assert query is None


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=10001",
        "limit=x",
        "limit=٣",
        "limit=" + "9" * 5000,
        "format=xml",
        "archive=zip",
        "format=%ff",
    ],
)
async def test_a_parameter_that_makes_no_sense_is_refused(tmp_path: Path, query: str) -> None:
    async with serving(tmp_path) as port:
        answer = await fetch(port, f"{PREFIX}/?{query}")
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["code"] == "invalid_request"


async def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        assert (await listed(port))["entries"] == []
        assert b"nothing here" in (await fetch(port, f"{PREFIX}/")).body


async def test_head_of_a_folder_has_no_body(tmp_path: Path) -> None:
    async with serving(a_volume(tmp_path)) as port:
        page, archive = await fetch(port, f"{PREFIX}/", "HEAD"), await fetch(port, f"{PREFIX}/?archive=tar", "HEAD")
    assert (page.status, page.body) == (200, b"")
    assert int(page.headers["content-length"]) > 0
    assert (archive.status, archive.body) == (200, b"")


@mutant("files/handler.py", "if self._running >= MOST_REQUESTS:", "if False:")
async def test_a_server_that_is_busy_says_so_and_stays_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MOST_REQUESTS", 0)
    async with serving(tmp_path) as port:
        answer = await fetch(port, f"{PREFIX}/")
        assert (await fetch(port, "/healthz")).status == 200
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert json.loads(answer.body)["error"]["code"] == "busy"


async def test_health_is_answered_without_the_prefix(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        assert (await fetch(port, "/healthz")).status == 200
        assert (await fetch(port, f"{PREFIX}/healthz")).status == 404


async def test_the_prefix_without_a_slash_leads_to_the_top_folder(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        answer = await fetch(port, PREFIX)
    assert (answer.status, answer.headers["location"]) == (308, "./data/")


async def test_a_volume_at_the_root_needs_no_prefix(tmp_path: Path) -> None:
    async with serving(a_volume(tmp_path), prefix="") as port:
        assert (await fetch(port, "/notes.txt")).body == b"inside\n"
        assert b"<b>files</b>" in (await fetch(port, "/")).body
        assert (await fetch(port, "//notes.txt")).status == 404
