"""Starts pod shims by way of the zygote, and the zygote when there is none."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from pathlib import Path

from gpu_runtime.local.node import isolated_python


class SandboxFailed(Exception):
    """The pod's sandbox could not be made; the message says why."""


class Zygote:
    """Forks shims. One that died is replaced at the next request."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def _open(self) -> socket.socket:
        if self._process is None or self._process.poll() is not None or self._socket is None:
            self.close()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            command = isolated_python.command("gpu_runtime.local.node.shim.zygote")
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, cwd="/", env={"LC_ALL": "C.UTF-8"}
            )
            theirs.close()
            self._socket = ours
        return self._socket

    async def start_shim(self, pod: Path, lock: int) -> None:
        """Starts the shim of the pod whose lock this is; returns when its namespaces and network stand."""
        answer_reader, answer_writer = os.pipe2(os.O_CLOEXEC)
        try:
            socket.send_fds(self._open(), [os.fsencode(pod)], [lock, answer_writer])
        finally:
            os.close(answer_writer)
        answer = await _read_all(answer_reader)
        if answer.strip() != "ok":
            raise SandboxFailed(answer.strip() or "the pod's shim ended while it started")

    def close(self) -> None:
        if self._socket:
            self._socket.close()
        if self._process:
            self._process.wait()
        self._process = self._socket = None


async def _read_all(descriptor: int) -> str:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        return (await reader.read()).decode(errors="replace")
    finally:
        transport.close()
