"""Container output behind both servers: the embedded one reads files, the real one asks a kubelet, played here."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from gpu_runtime.local.node.records import PodFiles
from gpu_runtime.supervisor.files import write_private
from realkube.certificates import Authority

LOOPBACK = "127.0.0.1"


class Output(Protocol):
    """What a container writes."""

    def write(self, time: str, text: str) -> None: ...

    def end(self) -> None: ...


class Files:
    """The files of a container that the embedded server reads."""

    def __init__(self, folder: Path, container: str) -> None:
        files = PodFiles(folder)
        self._run, self._log = files.run(container, 0), files.log(container, 0)
        for made in (self._run, self._log.parent):
            made.mkdir(parents=True)
        self._log.touch()
        self._say("running")
        (self._run / "spec.json").write_text("{}")

    def write(self, time: str, text: str) -> None:
        with self._log.open("a") as log:
            log.write(f"{time} stdout F {text}\n")

    def end(self) -> None:
        self._say("exited")

    def _say(self, status: str) -> None:
        state = {"status": status, "startedAt": 1.0, "finishedAt": 0.0, "exitCode": 0, "signal": 0}
        write_private(self._run / "state.json", json.dumps({**state, "reason": "", "message": ""}).encode())


class Kubelet(ThreadingHTTPServer):
    """Answers `/containerLogs/...` with the same output, whatever the pod."""

    daemon_threads = True

    def __init__(self, authority: Authority) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        pair = authority.server("played-kubelet", [LOOPBACK])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.lines: list[tuple[str, str]] = []
        self.ended = False
        self.changed = threading.Condition()

    def write(self, time: str, text: str) -> None:
        with self.changed:
            self.lines.append((time, text))
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def output(self, tail: int | None, *, follow: bool) -> Iterator[tuple[str, str]]:
        """The lines, and those that are added until the end when they are followed."""
        with self.changed:
            at = 0 if tail is None else max(0, len(self.lines) - tail)
            while True:
                yield from self.lines[at:]
                at = len(self.lines)
                if self.ended or not follow:
                    return
                self.changed.wait()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Kubelet

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        tail = int(query["tailLines"]) if "tailLines" in query else None
        for time, text in self.server.output(tail, follow=query.get("follow") == "true"):
            self._piece(f"{time} {text}\n" if query.get("timestamps") == "true" else f"{text}\n")
        self._piece("")

    def _piece(self, text: str) -> None:
        content = text.encode()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named as in its base
        """Says nothing: what was asked is not what the test is about."""


@contextmanager
def played_kubelet(authority: Authority) -> Iterator[Kubelet]:
    kubelet = Kubelet(authority)
    serving = threading.Thread(target=kubelet.serve_forever, name="played kubelet")
    serving.start()
    try:
        yield kubelet
    finally:
        kubelet.end()
        kubelet.shutdown()
        kubelet.server_close()
        serving.join()
