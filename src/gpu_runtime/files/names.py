"""Names of files, which are any bytes except `/` and NUL, in URLs, in pages and in headers."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

from gpu_runtime.files.errors import FileNotServed


def parse_path(raw: str) -> list[bytes]:
    """The names in the path of a URL, decoded once, without the trailing slash.

    A path with `.`, `..`, an empty name or an encoded slash is refused, not interpreted.
    """
    parts = raw.encode("utf-8", "surrogateescape").split(b"/")
    if parts[-1] == b"":
        parts.pop()
    names = [unquote_to_bytes(part) for part in parts]
    for name in names:
        if name in {b"", b".", b".."} or b"/" in name or b"\0" in name:
            raise FileNotServed("a part of the path is not a name that a file or folder can have")
    return names


def link(name: bytes) -> str:
    """The name as a part of a URL. All special characters are escaped, such as `:`, `?` and `%`."""
    return quote(name, safe="")


def shown(name: bytes) -> str:
    """The name for people. Bytes that are not UTF-8 and invisible characters are escaped."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def disposition(kind: str, name: bytes) -> str:
    """Content-Disposition with the name: in ASCII for old clients, and in full as RFC 6266 says."""
    text = name.decode("utf-8", "replace")
    ascii_name = "".join(each if each.isascii() and each.isprintable() and each not in '"\\%' else "_" for each in text)
    return f"{kind}; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(text, safe='')}"
