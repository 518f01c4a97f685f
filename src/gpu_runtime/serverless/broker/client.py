"""The client of NATS, which comes back after every error."""

from __future__ import annotations

from nats.aio.client import Client
from nats.errors import Error

PERMISSIONS_VIOLATION = "permissions violation"


class ReconnectingClient(Client):
    """nats-py closes the connection for good after most errors that the server reports, such as a slow consumer.

    This client connects again, with its subscriptions.
    """

    async def _process_err(self, err_msg: str) -> None:
        if not self.is_connected or PERMISSIONS_VIOLATION in err_msg.lower():
            await super()._process_err(err_msg)
            return
        error = Error(f"nats: {err_msg}")
        await self._error_cb(error)
        await self._process_op_err(error)
