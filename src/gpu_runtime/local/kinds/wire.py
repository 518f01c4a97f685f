"""Parts that several kinds share. Views read what a controller needs: unknown fields are not decoded or cached."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One condition on a label: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    matchLabels: dict[str, str] = {}
    matchExpressions: list[Requirement] = []


class Condition(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A condition of a built-in kind. It has times that the conditions of our kinds do not have."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None
    lastUpdateTime: datetime | None = None
    lastProbeTime: datetime | None = None
    lastHeartbeatTime: datetime | None = None
    observedGeneration: int = 0


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Any object of which only the metadata matters."""

    metadata: ObjectMeta


Template = dict[str, Any]
"""A pod template as the server keeps it: passed on as a whole, never read field by field."""
