"""A folder as an HTML page and as JSON. Pure. The page needs no script, and none can run in it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from html import escape
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from gpu_runtime.files.listing import Entry, Page
from gpu_runtime.files.names import link, shown
from gpu_runtime.files.sizes import readable

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
nav { font-size: 1.2rem; overflow-wrap: anywhere; }
a { color: #0550ae; text-decoration: none; }
a:hover { text-decoration: underline; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th { text-align: left; border-bottom: 1px solid #bbb; }
th, td { padding: .2rem .8rem .2rem 0; vertical-align: top; }
td:first-child { overflow-wrap: anywhere; }
td:nth-child(n+2), th:nth-child(n+2) { white-space: nowrap; text-align: right; padding-right: 0; padding-left: 1rem; }
.note { color: #666; }
"""
STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
NOT_SERVED = '<span class="note">(device, pipe or socket)</span>'


class EntryView(Struct, frozen=True, omit_defaults=True):
    """An entry as JSON. `name` is for people; `href` is exact, also for names that are not UTF-8."""

    name: str
    href: str
    type: str
    size: int
    modified: datetime | None
    target: str = ""


class FolderView(Struct, frozen=True):
    path: str
    entries: list[EntryView]
    next: str | None
    """The query of the next page; null on the last."""


def folder_json(path: Sequence[bytes], page: Page, limit: int) -> bytes:
    entries = [
        EntryView(shown(each.name), _href(each), each.type, each.size, each.modified, shown(each.target))
        for each in page.entries
    ]
    return msgspec.json.encode(FolderView("/".join(map(shown, path)), entries, _next(page, limit, "json")))


def folder_html(title: str, path: Sequence[bytes], page: Page, limit: int) -> bytes:
    """`title` is what the top folder is called."""
    where = escape("/".join([title, *map(shown, path)]))
    following = _next(page, limit, "html")
    more = f'<p><a href="{escape(following)}">next {limit} entries</a></p>' if following else ""
    empty = "" if page.entries else '<tr><td class="note" colspan="3">nothing here</td></tr>'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{where}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><nav>{_breadcrumbs(title, path)}</nav>\n"
        f"<table><thead><tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr></thead>\n<tbody>{empty}"
        f"{''.join(_rows(page.entries))}</tbody></table>\n{more}"
        '<p><a href="?archive=tar">download this folder as tar</a></p></body></html>\n'
    ).encode()


def _breadcrumbs(title: str, path: Sequence[bytes]) -> str:
    """Links to the folders above. Relative, so that the page works wherever it is mounted."""
    names = [title, *map(shown, path)]
    above = [f'<a href="{"../" * (len(path) - at)}">{escape(name)}</a>' for at, name in enumerate(names[:-1])]
    return " / ".join([*above, f"<b>{escape(names[-1])}</b>"])


def _rows(entries: Sequence[Entry]) -> Iterator[str]:
    for each in entries:
        name = escape(shown(each.name)) + ("/" if each.type == "folder" else "")
        target = f' <span class="note">→ {escape(shown(each.target))}</span>' if each.type == "link" else ""
        cell = f'<a href="{_href(each)}">{name}</a>' if each.type != "other" else f"{name} {NOT_SERVED}"
        size = f'<span title="{each.size} bytes">{readable(each.size)}</span>' if each.type == "file" else ""
        changed = f"{each.modified:%Y-%m-%d %H:%M:%S}" if each.modified else ""
        yield f"<tr><td>{cell}{target}</td><td>{size}</td><td>{changed}</td></tr>\n"


def _href(entry: Entry) -> str:
    return "./" + link(entry.name) + ("/" if entry.type == "folder" else "")


def _next(page: Page, limit: int, form: str) -> str | None:
    if page.last is None:
        return None
    query = {"format": form, "limit": str(limit), "after": page.last}
    return "?" + urlencode(query, quote_via=quote, safe="")
