"""A pod template is built once for each spec and kept with its Deployment, so that an upgrade restarts no pod.

A newer builder or new platform settings can make another template for the same spec, and writing it would restart every
pod. So an annotation of the Deployment keeps the template and what it was built from. Drift is repaired to this copy. A
new template is built when the spec changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpu_runtime.controllers.child_kinds.pod_template import PodTemplate
from gpu_runtime.controllers.child_kinds.workloads import Deployment
from gpu_runtime.controllers.labels import POD_TEMPLATE

LARGEST_COPY = 200_000
"""The annotations of an object may have 256 KiB in all. Of a larger template only the digest of its spec is kept."""


class _Copy(Struct, frozen=True, omit_defaults=True):
    generation: int
    source: str
    template: PodTemplate | None = None


_DECODER = msgspec.json.Decoder(_Copy)


@dataclass(frozen=True)
class KeptTemplate:
    """The template to run, and the annotation that keeps it."""

    template: PodTemplate
    annotation: dict[str, str]


def keep(
    deployment: Deployment | None, *, generation: int, source: str, build: Callable[[], PodTemplate]
) -> KeptTemplate:
    """The template kept with the Deployment if it was made for this spec, else a new one.

    `source` is a digest of the part of the spec that pods depend on: a new generation with the same digest (scaling)
    keeps the template. The same generation keeps it whatever the digest: another version may compute the digest
    differently.
    """
    text = deployment.metadata.annotations.get(POD_TEMPLATE, "") if deployment is not None else ""
    copy = _read(text)
    if copy is not None and copy.generation == generation:
        # Return the text unchanged: another version may encode it differently, and that would cause a write.
        return KeptTemplate(copy.template or build(), {POD_TEMPLATE: text})
    kept = copy.template if copy is not None and copy.source == source else None
    template = kept or build()
    return KeptTemplate(template, {POD_TEMPLATE: _written(_Copy(generation, source, template))})


def digest(spec: Struct, *, without: tuple[str, ...] = ()) -> str:
    """A digest of a spec without the fields that pods do not depend on."""
    fields = {name: value for name, value in msgspec.to_builtins(spec).items() if name not in without}
    return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()[:16]


def _written(copy: _Copy) -> str:
    text = msgspec.json.encode(copy, order="deterministic").decode()
    return text if len(text.encode()) <= LARGEST_COPY else _written(replace(copy, template=None))


def _read(text: str) -> _Copy | None:
    try:
        return _DECODER.decode(text) if text else None
    except msgspec.MsgspecError:
        return None  # somebody edited it; build a new template
