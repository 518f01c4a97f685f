"""A framework with one thread: calls wait in the socket's backlog, and so do questions for its health."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"

if __name__ == "__main__":
    path = os.environ["GPU_RUNTIME_FRAMEWORK_SOCKET"]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    Path(path).chmod(0o666)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            time.sleep(0.02)
            connection.sendall(ANSWER)
