"""Fills the places of a call from what the case's earlier answers said."""

from __future__ import annotations

import copy
import re

from kube.differential.call import Edited, Json

PLACE = re.compile(r"\$\{([^}]+)\}")


class Unfilled(Exception):
    """A place names something that this server never answered."""


def fill(value: Json, known: dict[str, Json]) -> Json:
    """`value` with every place filled in; a string that is one place alone takes the value as it is."""
    if isinstance(value, Edited):
        return merged(copy.deepcopy(looked_up(value.base, known)), fill(value.changes, known))
    if isinstance(value, str):
        if (whole := PLACE.fullmatch(value)) is not None:
            return looked_up(whole.group(1), known)
        return PLACE.sub(lambda place: str(looked_up(place.group(1), known)), value)
    if isinstance(value, dict):
        return {fill(key, known): fill(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, known) for item in value]
    return value


def looked_up(path: str, known: dict[str, Json]) -> Json:
    value: Json = known
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise Unfilled(path) from error
    return value


def merged(base: Json, changes: Json) -> Json:
    """A JSON merge patch (RFC 7386) of `base`."""
    if not isinstance(changes, dict):
        return changes
    result = dict(base) if isinstance(base, dict) else {}
    for key, change in changes.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result
