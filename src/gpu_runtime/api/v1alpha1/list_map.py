"""Lists of type `map`: one field is the key of an entry."""

from __future__ import annotations


def keyed_by(field: str) -> dict[str, object]:
    """Extra schema for a list: values of `field` are unique, and server-side apply merges entries by `field`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [field]}
