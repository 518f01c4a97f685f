"""curl as far as the walkthroughs use it, for machines that have none: -s -X METHOD -H HEADER -d BODY|@FILE URL."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 120


def main(arguments: list[str]) -> int:
    """Prints the body; the status goes to standard error."""
    method, headers, body, url = "", {}, None, ""
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
        elif not argument.startswith("-"):
            url = argument
    request = urllib.request.Request(url, body, headers, method=method or ("POST" if body else "GET"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            status, content = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read()
    sys.stdout.buffer.write(content)
    sys.stderr.write(f"{status}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
