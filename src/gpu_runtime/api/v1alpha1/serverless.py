"""How a unit takes part in a serverless function."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.meta.names import derived
from gpu_runtime.api.v1alpha1.fields import HttpPath, Replicas, Reported, Seconds, SubdomainName

SOCKET_DIRECTORY = "/tmp/serverless-framework"  # noqa: S108 a path inside the container: the volume that worker and framework share

RequestID = Annotated[
    str, Meta(max_length=63, pattern=r"^[a-z0-9_-]+$", extra={"hint": "lower-case letters, digits, '-' and '_'"})
]


class Framework(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The user's HTTP server on a unix socket, which the worker calls for each invocation."""

    socketPath: Annotated[
        str,
        Meta(
            max_length=100,  # the kernel allows 107
            pattern=r"^/tmp/serverless-framework/[A-Za-z0-9._-]+$",
            description=f"Path of the socket inside the container, directly under {SOCKET_DIRECTORY}.",
            extra={"hint": f"a file directly under {SOCKET_DIRECTORY}/"},
        ),
    ] = f"{SOCKET_DIRECTORY}/framework.sock"
    invokePath: Annotated[HttpPath, Meta(description="Path that an invocation is posted to.")] = "/invoke"
    healthPath: Annotated[
        HttpPath, Meta(description="Path that answers 200 when the framework can take invocations.")
    ] = "/healthz"


DEFAULT_FRAMEWORK = Framework()


class HandlerSource(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A function as Python source: the worker's container runs it on the platform's own image."""

    configMapName: Annotated[SubdomainName, Meta(description="ConfigMap with the source, under the key handler.py.")]
    entry: Annotated[
        str,
        Meta(
            max_length=128,
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            description="The function of the module that is called with each payload.",
            extra={"hint": "the name of a Python function"},
        ),
    ] = "main"


class Serverless(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Makes the unit a static worker of a serverless function: it pulls invocations as long as it runs."""

    enabled: Annotated[bool, Meta(description="Whether the unit works on invocations.")] = False
    requestID: Annotated[
        RequestID | None, Meta(description="Id of the function whose invocations it takes. Required when enabled.")
    ] = None
    minAvailableCount: Annotated[
        Replicas, Meta(description="Workers of this function to keep available even without work.")
    ] = 0
    idleTimeoutSeconds: Annotated[
        Seconds, Meta(description="Seconds without work after which further workers are removed. 0 keeps them.")
    ] = 300
    minRequestCount: Annotated[
        Replicas, Meta(description="Has no effect: it is accepted so that manifests that carry it still apply.")
    ] = 0
    concurrency: Annotated[
        int, Meta(ge=1, le=1000, description="Invocations that the unit takes at the same time.")
    ] = 1
    handler: Annotated[
        HandlerSource | None, Meta(description="Source that runs in place of the unit's image and template.")
    ] = None
    framework: Annotated[
        Framework, Meta(description="Where the worker finds the user's framework inside the container.")
    ] = DEFAULT_FRAMEWORK


NOT_SERVERLESS = Serverless()


CREDENTIALS_PREFIX = "worker-credentials"
"""Of Secrets with credentials for the broker. Templates of users may not name them."""
CREDENTIALS_KEY = "worker.creds"
"""The entry of such a Secret."""
HANDLER_KEY = "handler.py"
"""The entry of a ConfigMap with the source of a function."""


def credentials_secret(function: str) -> str:
    """The Secret with the broker credentials of a function's workers, in the namespace of the function."""
    return derived(CREDENTIALS_PREFIX, function)


ServerlessPhase = Literal["Disabled", "Pending", "Ready", "Failed"]


class ServerlessStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whether the unit takes invocations, and through which socket."""

    phase: Annotated[
        ServerlessPhase, Meta(description="Disabled, Pending until the worker is connected, Ready, or Failed.")
    ]
    socketPath: Annotated[Reported, Meta(description="Path of the framework's socket inside the container.")] = ""
    invokePath: Annotated[Reported, Meta(description="Path that an invocation is posted to.")] = ""
    healthPath: Annotated[Reported, Meta(description="Path that is asked for the framework's health.")] = ""
