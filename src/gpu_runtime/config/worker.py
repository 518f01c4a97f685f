"""Settings of a worker: the sidecar that runs the invocations of one function in one unit.

The container of the sidecar has no settings file. The unit's controller sets GPU_RUNTIME_WORKER_* variables.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.fields import HttpPath
from gpu_runtime.api.v1alpha1.serverless import DEFAULT_FRAMEWORK
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.config.shared import Health, Log

HEALTH_PORT = 20881

Token = Annotated[str, Meta(max_length=63, pattern=r"^[A-Za-z0-9_-]*$")]


class FrameworkSettings(Struct, frozen=True, kw_only=True):
    """The user's HTTP server on a unix socket."""

    socketPath: Annotated[
        str, Meta(max_length=100, pattern=r"^/", description="Path of the socket in the worker's container.")
    ] = DEFAULT_FRAMEWORK.socketPath
    invokePath: Annotated[HttpPath, Meta(description="Path that an invocation is posted to.")] = "/invoke"
    healthPath: Annotated[
        HttpPath, Meta(description="Path that answers 200 when the framework can take invocations.")
    ] = "/healthz"


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """A worker: pulls the invocations of one function and has the user's framework run them."""

    log: Log = Log()
    # The kubelet asks for readiness at the pod's address.
    health: Health = Health(host="0.0.0.0", port=HEALTH_PORT)  # noqa: S104
    nats: NatsSettings = NatsSettings()
    namespace: Annotated[Token, Meta(description="Namespace of the function and of the unit. Required.")] = ""
    function: Annotated[Token, Meta(description="Name of the function whose invocations it runs. Required.")] = ""
    name: Annotated[Token, Meta(description="Name of the worker: the unit's. Required.")] = ""
    concurrency: Annotated[int, Meta(ge=1, le=1000, description="Invocations that run at the same time.")] = 1
    framework: FrameworkSettings = FrameworkSettings()
    ackWaitSeconds: Annotated[
        float,
        Meta(ge=0.3, le=3600, description="Seconds after which the broker gives an unattended invocation to another."),
    ] = 30
    heartbeatSeconds: Annotated[float, Meta(ge=0.1, le=60, description="Seconds between reports to the activator.")] = 2
    pullSeconds: Annotated[
        float,
        Meta(ge=0.1, le=60, description="Seconds that one request for an invocation stays open at the broker."),
    ] = 2
    graceSeconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86400,
            description="Seconds between SIGTERM and SIGKILL. What is not done 2 s before that is handed back.",
        ),
    ] = 10
    maxResultBytes: Annotated[int, Meta(ge=1024, description="Largest result of the framework.")] = 64 * 1024**2
