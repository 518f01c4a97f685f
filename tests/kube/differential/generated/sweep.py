"""Every field of an object in every wrong way: as it is created, and as it is patched. Dry runs, so nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from kube.differential.call import Call, Json, get, json_patch, post, until
from kube.differential.generated.kinds import Kind
from kube.differential.generated.making import REMOVED, altered, fresh, places
from kube.differential.running import Mismatch, Pair, compared, prepare
from kube.differential.sending import Side, side
from kube.differential.tolerated import Tolerance

AT_ONCE = 8
CREATED: tuple[Json, ...] = ("text", "", 5, -1, 1.5, True, None, [], [5], [None], {}, [{}], REMOVED)
UNNAMED = tuple(value for value in CREATED if not isinstance(value, str))
"""A name in words would be one that others made, too."""
PATCHED: tuple[Json, ...] = ("AB_c", "", -1, None, [None], REMOVED)
ADDED = (
    "/metadata/generateName",
    "/metadata/finalizers",
    "/metadata/ownerReferences",
    "/metadata/annotations",
    "/status",
)
"""Fields that an object may lack and a patch may bring."""


async def sweep(kind: Kind, pair: Pair, run: str, tolerance: Tolerance) -> tuple[int, list[Mismatch]]:
    """How many calls were sent, and those that were answered differently."""
    name = f"s{run}" if kind.cluster_scoped else "swept"
    async with side(pair.left, f"s-{run}-l") as left, side(pair.right, f"s-{run}-r") as right:
        both = (left, right)
        await asyncio.gather(*(prepare(one) for one in both))
        made = post(kind.path, fresh(kind, name), keep="made")
        answers = [await one.take(made) for one in both]
        assert not any(answer.failed for answer in answers), [answer.brief() for answer in answers]
        if kind.serves:
            await asyncio.gather(*(one.take(until(200, get(kind.serves.format(name=name)))) for one in both))
        calls = [*creates(kind, name), *patches(kind, answers[0].body)]
        return len(calls), await sent(calls, both, tolerance)


async def sent(calls: Iterable[Call], both: tuple[Side, Side], tolerance: Tolerance) -> list[Mismatch]:
    waiting = asyncio.Semaphore(AT_ONCE)

    async def one(call: Call) -> list[Mismatch]:
        async with waiting:
            left, right = await asyncio.gather(*(side_.take(call) for side_ in both))
            return compared(call, left, right, tolerance)

    return [found for each in await asyncio.gather(*(one(call) for call in calls)) for found in each]


def creates(kind: Kind, name: str) -> Iterator[Call]:
    body = fresh(kind, f"{name}-2")
    for place in places(body):
        for value in CREATED if place != "metadata.name" else UNNAMED:
            yield post(kind.path, altered(body, place, value), dryRun="All")


def patches(kind: Kind, stored: Json) -> Iterator[Call]:
    """JSON patches of the object and of its status."""
    path = f"{kind.path}/${{made.metadata.name}}"
    found = (pointer for pointer in _pointers(stored) if not (kind.serves and pointer.startswith("/spec/versions/")))
    pointers = list(dict.fromkeys([*found, *ADDED]))  # the many fields of a schema are judged as in a create
    for target in (path, f"{path}/status") if kind.status else (path,):
        for pointer in pointers:
            for value in PATCHED:
                removal = {"op": "remove", "path": pointer}
                change = {"op": "replace" if pointer[-1].isdecimal() else "add", "path": pointer, "value": value}
                yield json_patch(target, removal if value is REMOVED else change, dryRun="All")


def _pointers(value: Json, pointer: str = "") -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        inside = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if key != "managedFields":
            yield inside
            yield from _pointers(inner, inside)
