"""Settings of the activator."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.config.controller_manager import LeaderElection
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.config.shared import Health, Log


class ActivatorSettings(Struct, frozen=True, kw_only=True):
    """The activator: reconciles GPUFunctions, whose workers come and go with their queues."""

    installNamespace: str = SYSTEM_NAMESPACE
    stockNamespace: str = STOCK_NAMESPACE
    log: Log = Log()
    health: Health = Health(port=8084)
    leaderElection: LeaderElection = LeaderElection()
    nats: NatsSettings = NatsSettings()
    signingKeyFile: Annotated[
        str | None,
        Meta(description="File of the key that signs the workers' credentials. Default: the broker asks for none."),
    ] = None
    workers: Annotated[int, Meta(ge=1, le=256, description="Functions that are reconciled at a time.")] = 16
    ackWaitSeconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="Seconds after which the broker gives the invocation of a silent worker to another. "
            "The workers' own setting must be the same.",
        ),
    ] = 30.0
    workerReadySeconds: Annotated[
        float, Meta(ge=10, le=86400, description="Seconds that a worker may take to start before it is replaced.")
    ] = 600.0
