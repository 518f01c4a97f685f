"""What each role may do at the broker: it may publish and subscribe to the subjects of its list, and to no other.

Requests to JetStream are publishes to `$JS.API...`, so these lists also decide who may change streams and consumers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.stream_names import BODIES, INVOCATIONS, RESULTS
from gpu_runtime.serverless.subjects import Function, Priority

Role = Literal["runtime-api", "activator", "result-store"]
"""The processes that use the broker, by name. Workers have credentials of their own."""

STREAMS = (INVOCATIONS, RESULTS, BODIES)
STORE_CONSUMERS = ((INVOCATIONS, "result-store-inv"), (RESULTS, "result-store-res"))
MAX_DELIVERIES = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


@dataclass(frozen=True)
class Permissions:
    """Subjects, with wildcards."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def role_permissions(role: Role) -> Permissions:
    match role:
        case "runtime-api":
            return _runtime_api()
        case "activator":
            return _activator()
        case "result-store":
            return _result_store()


def worker_permissions(function: Function) -> Permissions:
    """A worker reads, runs and ends the invocations of its own function. ValueError for an ambiguous name."""
    if "_" in function.namespace + function.name:
        raise ValueError(f"{function}: a name with '_' could share a consumer's name with another function")
    scope = function.scope
    priorities: tuple[Priority, ...] = get_args(Priority)
    consumers = [subjects.consumer(function, priority) for priority in priorities]
    return Permissions(
        publish=(
            *(f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer}" for consumer in consumers),
            *(f"$JS.ACK.{INVOCATIONS}.{consumer}.>" for consumer in consumers),
            f"$JS.API.DIRECT.GET.{RESULTS}.res.{scope}.*.*",
            f"$JS.API.DIRECT.GET.{BODIES}.body.{scope}.>",
            f"res.{scope}.*.*",
            f"body.{scope}.>",
            f"out.{scope}.*.*",
            f"wrk.{scope}.*",
        ),
        subscribe=(subjects.cancelled(function), f"ctl.{scope}.*"),
    )


def _runtime_api() -> Permissions:
    return Permissions(
        publish=(
            "inv.>",
            "res.>",
            "body.>",
            "cancel.>",
            *(f"$JS.API.STREAM.CREATE.{stream}" for stream in STREAMS),
            *_reads(),
            *_follows((INVOCATIONS, RESULTS)),
        ),
        subscribe=("wrk.>", "out.>"),
    )


def _activator() -> Permissions:
    return Permissions(
        publish=(
            "res.>",
            "ctl.>",
            "cancel.>",
            f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}.>",
            f"$JS.API.CONSUMER.DURABLE.CREATE.{INVOCATIONS}.*",
            f"$JS.API.CONSUMER.DELETE.{INVOCATIONS}.*",
            f"$JS.API.CONSUMER.LIST.{INVOCATIONS}",
            f"$JS.API.CONSUMER.NAMES.{INVOCATIONS}",
            *_reads(),
            *_follows((INVOCATIONS, RESULTS)),
        ),
        subscribe=("wrk.>",),
    )


def _result_store() -> Permissions:
    own = [f"{stream}.{consumer}" for stream, consumer in STORE_CONSUMERS]
    return Permissions(
        publish=(
            *(f"$JS.API.CONSUMER.CREATE.{each}" for each in own),
            *(f"$JS.API.CONSUMER.CREATE.{each}.>" for each in own),
            *(f"$JS.API.CONSUMER.DURABLE.CREATE.{each}" for each in own),
            *(f"$JS.API.CONSUMER.INFO.{each}" for each in own),
            *(f"$JS.API.CONSUMER.MSG.NEXT.{each}" for each in own),
            *(f"$JS.ACK.{each}.>" for each in own),
            *(f"$JS.API.STREAM.PURGE.{stream}" for stream in STREAMS),
            *(f"$JS.API.STREAM.MSG.DELETE.{stream}" for stream in STREAMS),
            *_reads(),
        ),
        subscribe=(f"{MAX_DELIVERIES}.{INVOCATIONS}.>",),
    )


def _reads() -> tuple[str, ...]:
    """Reads of the streams' settings and of stored messages."""
    return (
        "$JS.API.INFO",
        "$JS.API.STREAM.NAMES",
        *(f"$JS.API.STREAM.INFO.{stream}" for stream in STREAMS),
        *(f"$JS.API.STREAM.MSG.GET.{stream}" for stream in STREAMS),
        *(f"$JS.API.DIRECT.GET.{stream}" for stream in STREAMS),
        *(f"$JS.API.DIRECT.GET.{stream}.>" for stream in STREAMS),
    )


def _follows(streams: Iterable[str]) -> tuple[str, ...]:
    """Follows streams by consumers without a name. The broker makes no durable consumer by this request."""
    return (
        *(f"$JS.API.CONSUMER.CREATE.{stream}" for stream in streams),
        *(f"$JS.API.CONSUMER.INFO.{stream}.*" for stream in streams),
        "$JS.FC.>",  # answers to flow control
    )
