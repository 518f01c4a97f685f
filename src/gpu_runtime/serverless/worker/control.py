"""What others tell the worker over the broker: to drain, and that a run was cancelled."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog
from nats.aio.msg import Msg

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.messages import Cancelled, Control
from gpu_runtime.serverless.subjects import Function

_log = structlog.get_logger("worker")


async def listen(
    broker: Broker,
    function: Function,
    worker: str,
    *,
    drain: Callable[[], None],
    cancelled: Callable[[str], None],
) -> None:
    """Subscribes; the subscriptions last as long as the connection. `cancelled` gets the key of the run."""

    async def on_control(message: Msg) -> None:
        try:
            control = msgspec.json.decode(message.data, type=Control)
        except msgspec.MsgspecError as error:
            _log.warning("a control message cannot be read", problem=str(error))
            return
        if control.drain:
            drain()

    async def on_cancelled(message: Msg) -> None:
        try:
            said = msgspec.json.decode(message.data, type=Cancelled)
        except msgspec.MsgspecError as error:
            _log.warning("a cancellation cannot be read", problem=str(error))
            return
        cancelled(f"{said.invocationID}.{said.run}")

    await broker.connected()
    await broker.nats.subscribe(subjects.control(function, worker), cb=on_control)
    await broker.nats.subscribe(subjects.cancelled(function), cb=on_cancelled)
