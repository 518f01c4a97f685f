"""Settings of the result store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.config.shared import Health, Log


class ResultStoreSettings(Struct, frozen=True, kw_only=True):
    """The result store: copies invocations and their ends from the broker into a database."""

    log: Log = Log()
    health: Health = Health(port=8085)
    nats: NatsSettings = NatsSettings()
    results: ResultsSettings = ResultsSettings()
    ackWaitSeconds: Annotated[
        int, Meta(ge=1, le=600, description="After this time another replica stores the batch of one that died.")
    ] = 30
    keepSeconds: Annotated[
        int,
        Meta(
            ge=0,
            description="How long the broker keeps a run after its end; 5 minutes while a stream is more than half "
            "full. It must be less than streams.bodiesSeconds of the runtime-api: a large payload that is needed for "
            "a redrive is copied at this time.",
        ),
    ] = 86400
    retentionSeconds: Annotated[
        int,
        Meta(ge=0, description="How long the database keeps a run after its end. An id can be used again after it."),
    ] = 30 * 86400
    retentionBytes: Annotated[
        int,
        Meta(ge=1024**2, description="Size of all records. Above it the oldest are deleted, if keepSeconds is over."),
    ] = 20 * 1024**3
    housekeepingSeconds: Annotated[int, Meta(ge=1, description="How often old records are looked for.")] = 60
    purgesPerSecond: Annotated[int, Meta(ge=1, description="How many runs are purged from the broker in a second.")] = (
        500
    )
