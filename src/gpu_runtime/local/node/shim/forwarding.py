"""Reaches a pod that has a network of its own but no link to the machine: the shim accepts outside and connects inside.

A socket stays in the network namespace it was made in, so the listening ones are opened before the pod's is entered.
"""

from __future__ import annotations

import contextlib
import select
import socket

from gpu_runtime.local.node.shim.shapes import Forward

CHUNK = 1 << 16


class Relay:
    """Copies data between two connections, in both directions, until both have ended."""

    def __init__(self, outside: socket.socket, port: int) -> None:
        self._ends = (outside, socket.socket())
        self._owed = [b"", b""]  # what each end has yet to be sent
        self._ended = [False, False]  # whether each end sends no more
        for end in self._ends:
            end.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self._ends[1].connect(("127.0.0.1", port))

    def interests(self) -> dict[int, int]:
        """What to poll for. An end is read only when its earlier data has been sent to the other end."""
        wanted = {}
        for number, end in enumerate(self._ends):
            mask = select.POLLOUT if self._owed[number] else 0
            if not self._ended[number] and not self._owed[1 - number]:
                mask |= select.POLLIN
            if mask:  # with an empty mask, poll would report a hang-up again and again
                wanted[end.fileno()] = mask
        return wanted

    @property
    def descriptors(self) -> list[int]:
        return [end.fileno() for end in self._ends]

    def ready(self, descriptor: int) -> bool:
        """Copies what can be copied now; False when both ends have ended."""
        number = 0 if self._ends[0].fileno() == descriptor else 1
        try:
            self._send(number)
            if not self._ended[number] and not self._owed[1 - number]:
                data = self._ends[number].recv(CHUNK)
                self._ended[number] = not data
                self._owed[1 - number] = data
                self._send(1 - number)
                if not data:
                    self._ends[1 - number].shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return True
        except OSError:
            self.close()
            return False
        if all(self._ended) and not any(self._owed):
            self.close()
            return False
        return True

    def _send(self, number: int) -> None:
        if self._owed[number]:
            sent = self._ends[number].send(self._owed[number])
            self._owed[number] = self._owed[number][sent:]

    def close(self) -> None:
        for end in self._ends:
            end.close()


class Forwarder:
    """Listens on the machine for a pod and relays into it."""

    def __init__(self, forwards: list[Forward]) -> None:
        """Opens every port; OSError names the one that is taken or forbidden."""
        self._listeners: dict[int, tuple[socket.socket, int]] = {}
        self._relays: dict[int, Relay] = {}
        for forward in forwards:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((forward["listen"], forward["port"]))
            except OSError as error:
                listener.close()
                raise OSError(error.errno, f"port {forward['port']} cannot be opened: {error.strerror}") from error
            listener.listen(128)
            listener.setblocking(False)
            self._listeners[listener.fileno()] = (listener, forward["port"])

    def interests(self) -> dict[int, int]:
        wanted = dict.fromkeys(self._listeners, select.POLLIN)
        for relay in self._relays.values():
            wanted.update(relay.interests())
        return wanted

    def ready(self, descriptor: int) -> None:
        if descriptor in self._listeners:
            listener, port = self._listeners[descriptor]
            with contextlib.suppress(OSError):
                relay = Relay(listener.accept()[0], port)
                self._relays.update(dict.fromkeys(relay.descriptors, relay))
        elif relay_ := self._relays.get(descriptor):
            ends = relay_.descriptors
            if not relay_.ready(descriptor):
                for end in ends:
                    self._relays.pop(end, None)

    def close(self) -> None:
        for listener, _ in self._listeners.values():
            listener.close()
        for relay in self._relays.values():
            relay.close()
