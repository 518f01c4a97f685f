"""Settings of the connection to the broker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class NatsTls(Struct, frozen=True, kw_only=True):
    """TLS to the broker."""

    caFile: Annotated[str | None, Meta(description="Certificates that sign the broker's. Default: the system's.")] = (
        None
    )
    certFile: Annotated[str | None, Meta(description="Certificate of this client, if the broker asks for one.")] = None
    keyFile: str | None = None


class NatsSettings(Struct, frozen=True, kw_only=True):
    """The broker (NATS with JetStream). Secrets come from files."""

    url: Annotated[
        str | None,
        Meta(
            description="nats://HOST:PORT; several, separated by commas. Without it there are no serverless functions."
        ),
    ] = None
    credentialsFile: Annotated[
        str | None, Meta(description="File with the user's JWT and key, as the `nats` tools write it (.creds).")
    ] = None
    user: Annotated[str | None, Meta(description="User name, for a broker without JWTs.")] = None
    passwordFile: str | None = None
    tls: NatsTls | None = None

    @property
    def servers(self) -> list[str]:
        return [each.strip() for each in (self.url or "").split(",") if each.strip()]


class StreamSettings(Struct, frozen=True, kw_only=True):
    """Limits of the broker's streams. They take effect when the streams are created."""

    replicas: Annotated[int, Meta(ge=1, le=5, description="Copies of each message: 3 on a broker of three nodes.")] = 1
    invocationsBytes: Annotated[
        int, Meta(ge=1024**2, description="Size of the queue on disk. A full queue answers 503.")
    ] = 1024**3
    resultsBytes: Annotated[int, Meta(ge=1024**2)] = 2 * 1024**3
    bodiesBytes: Annotated[int, Meta(ge=1024**2, description="Payloads and results too large for a message.")] = (
        2 * 1024**3
    )
    bodiesSeconds: Annotated[
        int, Meta(ge=3600, description="How long large payloads and results are kept: longer than an invocation lives.")
    ] = 3 * 86400
