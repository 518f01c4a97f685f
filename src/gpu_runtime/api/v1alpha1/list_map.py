"""Lists whose entries are told apart by one of their fields."""

from __future__ import annotations


def keyed_by(field: str) -> dict[str, object]:
    """Extra schema for a list: each value of `field` may occur once, and applied entries merge by it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [field]}
