"""Limits the requests in flight: above the limit some clients must retry, so that the others are served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from gpu_runtime.rest.errors import TooManyRequests

_HELD: web.RequestKey[bool] = web.RequestKey("held", bool)


class Load:
    """The requests in flight. A stream is no longer counted once it begins: streams have their own limit."""

    def __init__(self, most: int) -> None:
        self.now = 0
        self._most = most

    @contextmanager
    def carry(self, request: web.Request) -> Iterator[None]:
        """Counts the request inside the block; TooManyRequests above the limit."""
        if self.now >= self._most:
            raise TooManyRequests(f"more than {self._most} requests at once: try again later")
        self.now += 1
        request[_HELD] = True
        try:
            yield
        finally:
            self.leave(request)

    def leave(self, request: web.Request) -> None:
        if request.get(_HELD):
            request[_HELD] = False
            self.now -= 1


LOAD: web.AppKey[Load] = web.AppKey("load", Load)
