"""The client of NATS, which comes back after every error and does not keep its caller from being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

PERMISSIONS_VIOLATION = "permissions violation"


class ReconnectingClient(Client):
    """nats-py closes the connection for good after most errors that the server reports, such as a slow consumer.

    Nothing would come back then, with its subscriptions, before the process restarts. This client connects again.
    """

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        with _cancellation_kept():
            return await super().request(subject, payload, timeout, old_style, headers)

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        with _cancellation_kept():
            return await super()._flush_pending(force_flush)

    async def _process_err(self, err_msg: str) -> None:
        if not self.is_connected or PERMISSIONS_VIOLATION in err_msg.lower():
            await super()._process_err(err_msg)
            return
        error = Error(f"nats: {err_msg}")
        await self._error_cb(error)
        await self._process_op_err(error)


@contextmanager
def _cancellation_kept() -> Iterator[None]:
    """Raises CancelledError if the task was cancelled inside and nothing was raised.

    nats-py drops the cancellation of a task that waits for a flush, and `asyncio.wait_for` of Python 3.11 drops one
    that comes together with the answer. The task would run on for ever.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
