"""What stands on both servers before the first case: the test CRD, our own CRDs, one storage class."""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml

from kube.differential.call import Call, Json, get, post, until
from kube.differential.objects import CRDS
from kube.differential.running import Pair, describe
from kube.differential.sending import Side, side
from kube.differential.widget_crd import crd

OURS = Path(__file__).parents[3] / "config" / "crd" / "bases"


def our_crds() -> list[Json]:
    """The product's own CRDs, as `make manifests` writes them."""
    return [yaml.safe_load(path.read_text()) for path in sorted(OURS.glob("*.yaml"))]


def calls() -> list[Call]:
    definitions = [crd("differential.example.com"), *our_crds()]
    made = [post(CRDS, definition) for definition in definitions]
    return made + [until(200, get(collection(definition))) for definition in definitions]


def collection(definition: Json) -> str:
    spec = definition["spec"]
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"


async def install(pair: Pair) -> list[str]:
    """Both servers serve the CRDs when this returns; else what went wrong, for a test of its own to say."""

    async def on(one: Side) -> list[str]:
        for call in calls():
            try:
                answer = await one.take(call)
            except TimeoutError:
                return [f"{describe(call)}: not answered as it should in time"]
            if answer.failed and answer.code != 409:
                return [f"{describe(call)}: {answer.brief()}"]
        return []

    async with side(pair.left, "left") as left, side(pair.right, "right") as right:
        return [line for lines in await asyncio.gather(on(left), on(right)) for line in lines]
