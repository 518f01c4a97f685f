"""Field types that several kinds share, with their limits: names, images, quantities."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.names import (
    DNS1123_LABEL,
    DNS1123_LABEL_HINT,
    DNS1123_SUBDOMAIN,
    DNS1123_SUBDOMAIN_HINT,
    LABEL_LENGTH,
    SUBDOMAIN_LENGTH,
)
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.list_map import keyed_by


def _amount(text: str) -> Quantity:
    return Quantity.parse(text, negative=False)


# A plain string in the schema: with kubectl an invalid quantity must be accepted, so that the controller can report
# InvalidSpec in the status. The REST API checks quantities before it writes anything.
QuantityText = Annotated[str, Meta(min_length=1, max_length=64, extra={"check": _amount})]

SpecName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LABEL_LENGTH,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        extra={"hint": "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"},
    ),
]

ImageReference = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        pattern=(
            r"^(([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*(:[0-9]+)?/)?"
            r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
            r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?$"
        ),
        extra={"hint": "an image reference such as python:3.12-slim or registry.example.com/team/app:v1"},
    ),
]

ObjectName = Annotated[str, Meta(max_length=LABEL_LENGTH, pattern=DNS1123_LABEL, extra={"hint": DNS1123_LABEL_HINT})]
SubdomainName = Annotated[
    str, Meta(max_length=SUBDOMAIN_LENGTH, pattern=DNS1123_SUBDOMAIN, extra={"hint": DNS1123_SUBDOMAIN_HINT})
]

PortName = Annotated[
    str,
    Meta(
        max_length=15,
        pattern=r"^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$",
        extra={"hint": "lower-case letters, digits and single '-' between them, with at least one letter"},
    ),
]
PortNumber = Annotated[int, Meta(ge=1, le=65535)]

HttpPath = Annotated[str, Meta(max_length=1024, pattern=r"^/", extra={"hint": "a path that begins with '/'"})]

GpuCount = Annotated[int, Meta(ge=0, le=1024, extra_json_schema={"default": 0})]
Seconds = Annotated[int, Meta(ge=0, le=86400)]
Replicas = Annotated[int, Meta(ge=0, le=10000)]
# The default makes `kubectl get` show 0 instead of an empty column.
Count = Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"default": 0})]
Generation = Annotated[int, Meta(ge=0)]

Words = Annotated[list[Annotated[str, Meta(max_length=32768)]], Meta(max_length=256)]

# Text that a controller writes: only its size is limited.
Reported = Annotated[str, Meta(max_length=2048)]
Uid = Annotated[str, Meta(max_length=128)]

ObservedGeneration = Annotated[
    Generation,
    Meta(description="The metadata.generation that this status was made for; out of date if older than the object's."),
]
LastSyncTime = Annotated[datetime | None, Meta(description="When this status last changed.")]
Conditions = Annotated[
    list[Condition],
    Meta(
        max_length=32,
        description="What is true of the object, one entry a type. Read the reason and message of Ready first.",
        extra_json_schema=keyed_by("type"),
    ),
]
