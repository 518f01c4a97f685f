"""The runtime template: what runs inside a unit's container."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.fields import HttpPath, PortName, PortNumber, Seconds, SubdomainName, Words
from gpu_runtime.api.v1alpha1.list_map import keyed_by

EnvName = Annotated[
    str,
    Meta(
        max_length=256,
        pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$",
        extra={"hint": "letters, digits, '_', '-' and '.', not beginning with a digit"},
    ),
]


class SecretKeySelector(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of a Secret in the namespace of the object."""

    name: Annotated[SubdomainName, Meta(description="Name of the Secret, in the same namespace.")]
    key: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            pattern=r"^[-._a-zA-Z0-9]+$",
            description="The entry of the Secret to read.",
            extra={"hint": "letters, digits, '-', '_' and '.'"},
        ),
    ]
    optional: Annotated[
        bool,
        Meta(
            description="Start without the variable when the Secret or the entry is missing, instead of waiting for it."
        ),
    ] = False


class EnvVarSource(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the value of an environment variable comes from."""

    secretKeyRef: Annotated[
        SecretKeySelector,
        Meta(
            description="An entry of a Secret. Its value never appears in this object.",
            extra_json_schema={"x-kubernetes-map-type": "atomic"},
        ),
    ]


class EnvVar(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One environment variable of the container."""

    name: Annotated[EnvName, Meta(description="Name of the variable. Each name may occur once.")]
    value: Annotated[
        str, Meta(max_length=32768, description="Its value, as plain text. Keep secrets in valueFrom.")
    ] = ""
    valueFrom: Annotated[
        EnvVarSource | None, Meta(description="Where its value comes from instead. Set value or valueFrom, not both.")
    ] = None


class Port(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A port that the container listens on; the Service serves the same number."""

    name: Annotated[PortName, Meta(description="Name of the port, such as http. Each name may occur once.")]
    port: Annotated[PortNumber, Meta(description="Number of the port. Each number may occur once.")]
    protocol: Annotated[Literal["TCP", "UDP", "SCTP"], Meta(description="Transport protocol of the port.")] = "TCP"


PortReference = Annotated[PortNumber | PortName, Meta(description="Number or name of one of the template's ports.")]


class HttpGetAction(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An HTTP GET that must answer with a status from 200 to 399."""

    path: Annotated[HttpPath, Meta(description="Path of the request.")] = "/"
    port: PortReference
    scheme: Annotated[Literal["HTTP", "HTTPS"], Meta(description="HTTP or HTTPS; certificates are not verified.")] = (
        "HTTP"
    )


class TcpSocketAction(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A TCP connection that must be accepted."""

    port: PortReference


class ExecAction(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A command, run inside the container, that must exit with 0."""

    command: Annotated[Words, Meta(min_length=1, description="The command and its arguments. No shell is involved.")]


class Probe(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How to find out whether the container can serve. Set exactly one of httpGet, tcpSocket and exec."""

    httpGet: Annotated[HttpGetAction | None, Meta(description="Ready when this HTTP request succeeds.")] = None
    tcpSocket: Annotated[TcpSocketAction | None, Meta(description="Ready when this port accepts a connection.")] = None
    exec: Annotated[ExecAction | None, Meta(description="Ready when this command succeeds.")] = None
    initialDelaySeconds: Annotated[
        Seconds, Meta(description="Seconds to wait after the container's start before the first try.")
    ] = 0
    periodSeconds: Annotated[int, Meta(ge=1, le=3600, description="Seconds from one try to the next.")] = 10
    timeoutSeconds: Annotated[int, Meta(ge=1, le=3600, description="Seconds after which one try counts as failed.")] = 1
    successThreshold: Annotated[
        int, Meta(ge=1, le=100, description="Successes in a row that make the container ready.")
    ] = 1
    failureThreshold: Annotated[int, Meta(ge=1, le=100, description="Failures in a row that make it not ready.")] = 3


class RuntimeTemplate(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What runs inside the container: command, environment, ports and readiness."""

    command: Annotated[
        Words,
        Meta(description="Replaces the image's entrypoint. Without command and args a placeholder keeps it alive."),
    ] = []
    args: Annotated[
        Words, Meta(description="Arguments of the command, or of the image's entrypoint when command is empty.")
    ] = []
    envs: Annotated[
        list[EnvVar],
        Meta(max_length=256, description="Environment variables of the container.", extra_json_schema=keyed_by("name")),
    ] = []
    ports: Annotated[
        list[Port],
        Meta(
            max_length=32,
            description="Ports that the container listens on. With at least one, a Service makes them reachable.",
            extra_json_schema=keyed_by("name"),
        ),
    ] = []
    readinessProbe: Annotated[
        Probe | None,
        Meta(description="When the container can serve. Default: when the primary port accepts a TCP connection."),
    ] = None
    terminationGracePeriodSeconds: Annotated[
        Annotated[int, Meta(ge=1, le=3600)] | None,
        Meta(
            description="Seconds from the stop signal to the kill when the container ends. Default: the platform's, 10."
        ),
    ] = None


EMPTY_TEMPLATE = RuntimeTemplate()
