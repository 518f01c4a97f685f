"""A framework for tests: does what the payload says, and notes the id of each call in a file.

    odd_framework.py CALLS_FILE          the socket is named by GPU_RUNTIME_FRAMEWORK_SOCKET

`{"do": "json", "answer": {...}}` answers with that JSON; see `ANSWERS` for the others. Each
connection has a thread, so that /healthz answers while calls run.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

CALLS = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(os.devnull)
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "worker"

    def do_GET(self) -> None:
        unhealthy = CALLS.with_name("unhealthy").exists()
        self.answer(503 if unhealthy else 200, "text/plain", b"ok")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock, CALLS.open("a") as calls:
            calls.write(request["invocationID"] + "\n")
        payload = request.get("payload")
        order = payload if isinstance(payload, dict) else {}
        ANSWERS[order.get("do", "echo")](self, request, order)

    def answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, value: Any, status: int = 200) -> None:
        self.answer(status, "application/json", json.dumps(value).encode())


def echo(handler: Handler, request: dict[str, Any], _: dict[str, Any]) -> None:
    handler.answer_json({"body": request})


def given_json(handler: Handler, _: dict[str, Any], order: dict[str, Any]) -> None:
    handler.answer_json(order["answer"], order.get("status", 200))


def given_text(handler: Handler, _: dict[str, Any], order: dict[str, Any]) -> None:
    handler.answer(order.get("status", 200), order.get("type", "text/plain"), order["text"].encode("latin-1"))


def large(handler: Handler, _: dict[str, Any], order: dict[str, Any]) -> None:
    handler.answer_json({"body": "x" * order["bytes"]})


def garbage(handler: Handler, _: dict[str, Any], order: dict[str, Any]) -> None:
    handler.wfile.write(order.get("text", "this is not HTTP\r\n\r\n").encode())
    handler.close_connection = True


def hang_up(handler: Handler, _: dict[str, Any], __: dict[str, Any]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def hang_up_within(handler: Handler, _: dict[str, Any], __: dict[str, Any]) -> None:
    """Promises more bytes than it sends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    hang_up(handler, {}, {})


def crash(_: Handler, __: dict[str, Any], ___: dict[str, Any]) -> None:
    os._exit(9)


def sleep(handler: Handler, request: dict[str, Any], order: dict[str, Any]) -> None:
    """Answers after some seconds, or as soon as the file `release` is there."""
    ends = time.monotonic() + order.get("seconds", 3600)
    release = CALLS.with_name("release")
    while time.monotonic() < ends and not release.exists():
        if gone(handler):
            with lock, CALLS.with_name("gone").open("a") as file:
                file.write(request["invocationID"] + "\n")
            return
        time.sleep(0.02)
    echo(handler, request, order)


def gone(handler: Handler) -> bool:
    """Whether the worker closed the connection."""
    handler.connection.setblocking(False)
    try:
        return not handler.connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    finally:
        handler.connection.setblocking(True)


def drip(handler: Handler, _: dict[str, Any], __: dict[str, Any]) -> None:
    """A byte now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.05)


def stream(handler: Handler, _: dict[str, Any], order: dict[str, Any]) -> None:
    """The given lines, one chunk each."""
    kind = order.get("type", "application/x-ndjson")
    handler.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    for line in order["lines"]:
        data = line.encode()
        handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")
    handler.close_connection = True


def fail_first(handler: Handler, request: dict[str, Any], order: dict[str, Any]) -> None:
    """Fails the first tries."""
    if request["attempt"] <= order["times"]:
        handler.answer(500, "text/plain", f"failed in try {request['attempt']}".encode())
    else:
        echo(handler, request, order)


ANSWERS: dict[str, Callable[[Handler, dict[str, Any], dict[str, Any]], None]] = {
    "echo": echo,
    "json": given_json,
    "text": given_text,
    "large": large,
    "garbage": garbage,
    "hang-up": hang_up,
    "hang-up-within": hang_up_within,
    "crash": crash,
    "sleep": sleep,
    "drip": drip,
    "stream": stream,
    "fail-first": fail_first,
}


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    path = os.environ["GPU_RUNTIME_FRAMEWORK_SOCKET"]
    Path(path).unlink(missing_ok=True)
    with Server(path, Handler) as server:
        Path(path).chmod(0o666)
        server.serve_forever()
