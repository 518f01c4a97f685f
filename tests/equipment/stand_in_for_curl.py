"""curl as far as the walkthroughs use it, for machines that have none: -s -i -X METHOD -H HEADER -d BODY|@FILE URL."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 120


def main(arguments: list[str]) -> int:
    """Prints the body, with -i after status and headers; the status goes to standard error."""
    method, headers, body, url, include = "", {}, None, "", False
    given = iter(arguments)
    for argument in given:
        if argument == "-X":
            method = next(given)
        elif argument == "-H":
            name, _, value = next(given).partition(":")
            headers[name.strip()] = value.strip()
        elif argument == "-d":
            text = next(given)
            body = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        elif argument == "-i":
            include = True
        elif not argument.startswith("-"):
            url = argument
    request = urllib.request.Request(url, body, headers, method=method or ("POST" if body else "GET"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            status, received, content = response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        status, received, content = error.code, error.headers, error.read()
    if include:
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in received.items()), "", ""]
        sys.stdout.write("\r\n".join(lines))
        sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stderr.write(f"{status}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
