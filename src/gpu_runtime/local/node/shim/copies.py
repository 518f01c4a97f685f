"""`kubectl attach`: gives each attached client a copy of the program's output from now on.

The program waits for a reader that is slow, but not for one that has stopped reading.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time

from gpu_runtime.local.node.shim import keeper

PATIENCE = 5.0
END_OF_INPUT = b"end"


class Reader:
    """One attached client; `streams` are its pipes for output and errors. The input ends when one who `speaks` goes."""

    def __init__(self, streams: list[int], control: socket.socket, *, speaks: bool) -> None:
        self.control, self._streams = control, dict(zip(("stdout", "stderr"), streams, strict=True))
        self._owed = dict.fromkeys(self._streams, b"")
        self._stopped = 0.0
        self._speaks = speaks
        self.gone = False
        self.input_ended = False
        for descriptor in streams:
            os.set_blocking(descriptor, False)

    @property
    def behind(self) -> bool:
        return any(self._owed.values())

    @property
    def deadline(self) -> float | None:
        return self._stopped + PATIENCE if self.behind else None

    def interests(self) -> dict[int, int]:
        owed = {self._streams[name]: select.POLLOUT for name, data in self._owed.items() if data}
        return {self.control.fileno(): select.POLLIN, **owed}

    def feed(self, name: str, data: bytes) -> None:
        self._owed[name] += data
        self._flush(name)

    def ready(self, descriptor: int) -> None:
        if descriptor != self.control.fileno():
            self._flush(next(name for name, each in self._streams.items() if each == descriptor))
            return
        try:
            received = self.control.recv(64)
        except OSError:
            received = b""
        self.gone = self.gone or not received
        self.input_ended = self._speaks and received in (END_OF_INPUT, b"")

    def _flush(self, name: str) -> None:
        self._stopped = self._stopped if self.behind and self._stopped else time.monotonic()
        try:
            while self._owed[name]:
                self._owed[name] = self._owed[name][os.write(self._streams[name], self._owed[name]) :]
                self._stopped = time.monotonic()
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more
            self.gone = True

    def close(self) -> None:
        """Call it when the container has ended or the client has gone."""
        with contextlib.suppress(OSError):
            keeper.send_report(self.control, {"status": 0})
        self.control.close()
        for descriptor in self._streams.values():
            os.close(descriptor)
