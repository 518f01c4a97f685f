"""How users reach a unit."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.fields import PortName


class Access(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which port users reach, and by which protocol: makes the access URL in the status."""

    primaryPort: Annotated[
        PortName | None, Meta(description="Name of the template's port that users reach. Default: the first port.")
    ] = None
    scheme: Annotated[
        str,
        Meta(
            max_length=32,
            pattern=r"^[a-z][a-z0-9+.-]*$",
            description="First part of the access URL, such as http, https or grpc.",
            extra={"hint": "lower-case letters, digits, '+', '.' and '-', beginning with a letter"},
        ),
    ] = "http"


DEFAULT_ACCESS = Access()
