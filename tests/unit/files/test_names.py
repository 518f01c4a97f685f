"""Odd names: listed, linked and downloaded, and never part of the page's own code."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import pytest

from equipment.mutation import mutant
from unit.files.world import PREFIX, fetch, serving

NAMES = {
    "a script": b"<script>alert(1)</script>".replace(b"/", b"_"),
    "an attribute": b'" onmouseover="alert(1)',
    "a single quote": b"it's",
    "an entity": b"&lt;b&gt;",
    "a newline": b"two\nlines",
    "a carriage return and a header": b"a\r\nX-Injected: yes",
    "no text": b"\xff\xfe\x80",
    "other scripts": "данные 数据 🚀".encode(),
    "characters that turn the text around": "a\u202egnp.exe".encode(),
    "encoded dots": b"%2e%2e",
    "an encoded slash": b"a%2fb",
    "a percent sign": b"100%",
    "a question mark and a hash": b"what?#why",
    "a scheme": b"javascript:alert(1)",
    "a backslash": b"..\\..\\x",
    "dots and more": b"...",
    "a space at both ends": b" x ",
    "as long as a name can be": b"n" * 255,
    "a semicolon": b"a;b=c",
    "a plus": b"a+b",
    "a leading dash": b"-rf",
    "control characters": b"\x01\x1b[31m\x7f",
}


def hrefs(page: bytes) -> list[str]:
    return [unescape(each) for each in re.findall(r'<td><a href="([^"]*)"', page.decode())]


def followed(href: str) -> str:
    """Where a browser goes from the page of the top folder."""
    return urljoin(f"http://localhost{PREFIX}/", href).removeprefix("http://localhost")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_an_odd_name_is_listed_and_downloaded_and_not_injected(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(b"content of it")
    async with serving(tmp_path) as port:
        page = await fetch(port, f"{PREFIX}/")
        entries = json.loads((await fetch(port, f"{PREFIX}/?format=json")).body)["entries"]
        assert hrefs(page.body) == [entry["href"] for entry in entries]
        (href,) = hrefs(page.body)
        assert re.fullmatch(r"\./[A-Za-z0-9._~%-]+", href)
        assert b"<script" not in page.body
        assert b'onmouseover="alert' not in page.body
        answer = await fetch(port, followed(href))
    assert (answer.status, answer.body) == (200, b"content of it")
    assert "x-injected" not in answer.headers
    assert answer.headers["content-disposition"].isascii()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_folder_with_an_odd_name_is_entered_and_left_again(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    (folder / "file").write_bytes(b"in the folder")
    async with serving(tmp_path) as port:
        (href,) = hrefs((await fetch(port, f"{PREFIX}/")).body)
        turned = await fetch(port, followed(href).removesuffix("/"))
        assert (turned.status, turned.headers["location"]) == (308, href)
        page = await fetch(port, followed(href))
        assert hrefs(page.body) == ["./file"]
        assert b'<nav><a href="../">data</a> / ' in page.body
        assert (await fetch(port, followed(href) + "file")).body == b"in the folder"


@mutant("files/pages.py", "→ {escape(shown(each.target))}", "→ {shown(each.target)}")
@mutant("files/pages.py", "<b>{escape(names[-1])}</b>", "<b>{names[-1]}</b>")
@mutant("files/pages.py", '">{escape(name)}</a>', '">{name}</a>')
@mutant("files/pages.py", 'where = escape("/".join([title, *map(shown, path)]))', 'where = "/".join(map(shown, path))')
async def test_no_name_becomes_code_wherever_the_page_shows_it(tmp_path: Path) -> None:
    folder = tmp_path / "<script>"
    (folder / "<script>below").mkdir(parents=True)
    (folder / "link").symlink_to("<script>target")
    async with serving(tmp_path) as port:
        outer = await fetch(port, f"{PREFIX}/%3Cscript%3E/")
        inner = await fetch(port, f"{PREFIX}/%3Cscript%3E/%3Cscript%3Ebelow/")
    for page in (outer, inner):
        assert page.status == 200
        assert b"<script" not in page.body


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@mutant("files/names.py", "if each.isascii() and each.isprintable() and each not in", "if each.isascii() or each in")
@mutant("files/names.py", 'if each.isprintable() else each.encode("unicode_escape").decode()', "")
async def test_an_odd_name_stays_inside_its_quotes_and_is_seen_as_it_is(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(b"")
    async with serving(tmp_path) as port:
        (entry,) = json.loads((await fetch(port, f"{PREFIX}/?format=json")).body)["entries"]
        answer = await fetch(port, followed(entry["href"]))
    assert entry["name"].isprintable()
    given = answer.headers["content-disposition"]
    assert re.fullmatch(r"""[a-z]+; filename="[^"\\%]*"; filename\*=UTF-8''[A-Za-z0-9._~%-]+""", given)


@pytest.mark.parametrize(
    ("name", "kind", "disposition"),
    [
        ("page.html", "text/plain; charset=utf-8", "inline"),
        ("train.py", "text/plain; charset=utf-8", "inline"),
        ("log.txt", "text/plain; charset=utf-8", "inline"),
        ("config.json", "application/json", "inline"),
        ("plot.png", "image/png", "inline"),
        ("drawing.svg", "application/octet-stream", "attachment"),
        ("page.xhtml", "application/octet-stream", "attachment"),
        ("text.txt.gz", "application/octet-stream", "attachment"),
        ("weights", "application/octet-stream", "attachment"),
    ],
)
async def test_a_browser_is_never_given_something_to_run(
    tmp_path: Path, name: str, kind: str, disposition: str
) -> None:
    (tmp_path / name).write_text("<script>alert(1)</script>")
    async with serving(tmp_path) as port:
        answer = await fetch(port, f"{PREFIX}/{name}")
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"].startswith(f'{disposition}; filename="{name}"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-downloads; default-src 'none'")
    assert "allow-scripts" not in policy
