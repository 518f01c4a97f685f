"""A process to supervise: answers its port, and writes down when it was started and stopped."""

from __future__ import annotations

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import FrameType

port, diary, name, *options = sys.argv[1:]


def note(what: str) -> None:
    with Path(diary).open("a") as file:
        file.write(f"{what} {name} {os.getpid()}\n")


def ready(path: str) -> bool:
    """With `last` it is when another has started, with `fading` it was the first time that it was asked."""
    lines = Path(diary).read_text().splitlines()
    if "last" in options and path == "/readyz":
        return any(line.split()[1] != name for line in lines)
    if "fading" in options:
        note("asked")
        return not any(line.startswith("asked") for line in lines)
    return "never-ready" not in options


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if ready(self.path) else 503)
        self.end_headers()
        self.wfile.write(b'{"ready": false, "problems": {"disk": "is full"}}')

    def log_message(self, *_: object) -> None:
        pass


def end(number: int, _: FrameType | None) -> None:
    note("stopped")
    sys.exit(0)


signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in options else end)
note("started")
if "broken" in options:
    sys.exit("no disk")
if "hangs-second" in options and Path(diary).read_text().count("started") == 2:
    signal.pause()
if "misused" in options:
    sys.stderr.write("the settings are wrong\n")
    sys.exit(2)
HTTPServer(("127.0.0.1", int(port)), Answer).serve_forever()
