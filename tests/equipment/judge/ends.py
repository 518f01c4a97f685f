"""I6, same end: a run with faults leaves the same objects as a clean run, but for what is different every time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from equipment.judge.orphans import describe
from equipment.judge.timeline import Document

# Counters and times tell how often and when something was written, not what is there.
VOLATILE = frozenset({"creationTimestamp", "generation", "managedFields", "observedGeneration", "resourceVersion"})
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def same_end(clean: Iterable[Document], perturbed: Iterable[Document]) -> list[str]:
    """Differences between the listings of two runs; a UID counts as the name of the object that has it."""
    one, other = masked(clean), masked(perturbed)
    return [
        *(f"{name} is missing" for name in one if name not in other),
        *(f"{name} should not be there" for name in other if name not in one),
        *(line for name in one if name in other for line in _differences(name, one[name], other[name])),
    ]


def masked(objects: Iterable[Document]) -> dict[str, Any]:
    """The objects by kind and name, without what differs from run to run."""
    listed = list(objects)
    names = {document["metadata"]["uid"]: f"<{describe(document)}>" for document in listed}
    return {describe(document): _mask(document, names) for document in listed}


def _mask(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _mask(inner, names) for key, inner in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [_mask(inner, names) for inner in value]
    if isinstance(value, str):
        return "<time>" if TIME.match(value) else UID.sub(lambda uid: names.get(uid[0], "<gone>"), value)
    return value


def _differences(path: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if key not in other:
                yield f"{path}.{key} is missing, was {one[key]!r}"
            elif key not in one:
                yield f"{path}.{key} should not be there, is {other[key]!r}"
            else:
                yield from _differences(f"{path}.{key}", one[key], other[key])
    elif one != other:
        yield f"{path} is {other!r}, was {one!r}"
