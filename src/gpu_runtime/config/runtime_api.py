"""Settings of the runtime-api."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.fields import QuantityText
from gpu_runtime.api.v1alpha1.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.config.nats import NatsSettings, StreamSettings
from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.config.shared import Health, Log


class ApiLimits(Struct, frozen=True, kw_only=True):
    """Limits for one request, and for all requests together."""

    bodyBytes: Annotated[int, Meta(ge=1024, le=1024**3)] = 1024 * 1024
    requestsInFlight: Annotated[int, Meta(ge=1, le=100_000)] = 256
    streams: Annotated[int, Meta(ge=1, le=100_000, description="Watches and followed logs at a time.")] = 500
    requestSeconds: Annotated[
        int,
        Meta(
            ge=1,
            le=600,
            description="A request that takes longer is stopped; the answer asks the client to send it again.",
        ),
    ] = 30
    stalledClientSeconds: Annotated[
        int,
        Meta(
            ge=1, le=600, description="A client that reads nothing for this long, although data waits, is disconnected."
        ),
    ] = 30
    stockUnits: Annotated[int, Meta(ge=1, le=1000, description="Stock units that one request may seed.")] = 1000
    storageSize: Annotated[QuantityText, Meta(description="The largest size that a storage may have.")] = "16Ti"


class OperationSettings(Struct, frozen=True, kw_only=True):
    """Settings of the records of client operations (kind Operation)."""

    retentionSeconds: Annotated[
        int, Meta(ge=60, description="How long a record is kept after its objects are gone.")
    ] = 24 * 3600
    abandonedAfterSeconds: Annotated[
        int, Meta(ge=1, description="After this time without a change it is finished or undone.")
    ] = 30
    replayWaitSeconds: Annotated[
        int, Meta(ge=0, le=60, description="How long a replay waits for the first request.")
    ] = 2


class InvocationSettings(Struct, frozen=True, kw_only=True):
    """Limits of invocations of serverless functions."""

    payloadBytes: Annotated[
        int,
        Meta(ge=1024, le=1024**3, description="The largest payload. Those above 512 KiB go to the stream of bodies."),
    ] = 8 * 1024**2
    maxAgeSeconds: Annotated[
        int,
        Meta(ge=1, le=7 * 86400, description="Invocations without timeoutSeconds expire after this time in the queue."),
    ] = 86400
    syncWaitSeconds: Annotated[
        int, Meta(ge=1, le=600, description="How long the answer to mode sync waits if the request does not say.")
    ] = 60


class RuntimeApiSettings(Struct, frozen=True, kw_only=True):
    """The runtime-api: the REST API and its background work."""

    installNamespace: str = SYSTEM_NAMESPACE
    log: Log = Log()
    health: Health = Health(port=8082)
    httpAddr: Annotated[str, Meta(pattern=r":[0-9]+$", description="HOST:PORT; an empty host is every address.")] = (
        "127.0.0.1:8080"
    )
    auth: Annotated[
        Literal["token", "none"],
        Meta(description="To listen on an address other than loopback, set tokenFile, or `none` here."),
    ] = "token"
    tokenFile: Annotated[str | None, Meta(description="File of bearer tokens, one line each: NAME TOKEN.")] = None
    allowedHosts: Annotated[list[str], Meta(description="Further names that clients may call the API by.")] = []
    allowedNamespaces: Annotated[
        list[str], Meta(description="Where users may have pools and units; patterns such as team-* are understood.")
    ] = msgspec.field(default_factory=lambda: ["default", INSTANCE_NAMESPACE])
    stockNamespace: str = STOCK_NAMESPACE
    instanceNamespace: Annotated[str, Meta(description="Where units are made when the request names no namespace.")] = (
        INSTANCE_NAMESPACE
    )
    limits: ApiLimits = ApiLimits()
    operations: OperationSettings = OperationSettings()
    nats: NatsSettings = NatsSettings()
    streams: StreamSettings = StreamSettings()
    invocations: InvocationSettings = InvocationSettings()
    results: Annotated[
        ResultsSettings | None,
        Meta(description="The database of results. Without it, what the broker has dropped cannot be looked up."),
    ] = None
    drainSeconds: Annotated[int, Meta(ge=0, le=600, description="How long requests may take to end after SIGTERM.")] = (
        20
    )
