"""A kind that a test brings along, reconciled with the writers of `kube/` alone: what a third kind takes.

A Toy has two conditions, a finalizer, and a box (a ConfigMap) that is owned by annotation, so that it survives the
garbage collector and is deleted by the toy's own cleanup.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import msgspec

from equipment.waiting import eventually
from equipment.world import DEFINITIONS
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import (
    ByAnnotation,
    Children,
    ChildWriter,
    Client,
    Controller,
    Finalizer,
    Manager,
    NotFound,
    OwnWrites,
    Query,
    Resource,
    Result,
    Source,
    StatusWriter,
    owned_by_annotation,
    primary,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap

OWNER = ByAnnotation(name="toys.example.org/toy", uid="toys.example.org/toy-uid")
FINALIZER = "toys.example.org/box"
BOXES = "role=box"


class ToySpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    size: int = 1


class ToyStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    box: str = ""
    conditions: list[Condition] = []


class Toy(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ToySpec = ToySpec()
    status: ToyStatus = ToyStatus()


def box(toy: Toy) -> ConfigMap:
    """The box of a toy. Pure: same input, same object."""
    meta = ObjectMeta(
        name=f"{toy.metadata.name}-box",
        namespace=toy.metadata.namespace,
        labels={"role": "box"},
        annotations=OWNER.annotations(toy.metadata),
    )
    return ConfigMap(metadata=meta, data={"size": str(toy.spec.size)})


def conditions(toy: Toy) -> list[Condition]:
    """What is true of a toy that has its box. Pure."""
    generation = toy.metadata.generation
    ready = Condition.true("Ready", "BoxMade", f"the box has size {toy.spec.size}", generation)
    if toy.spec.size > 10:
        return [ready, Condition.true("Large", "TooLargeForAShelf", "", generation)]
    return [ready, Condition.false("Large", "FitsOnAShelf", "", generation)]


@dataclass(frozen=True)
class ToyReconciler:
    client: Client
    toys: OwnWrites[Toy]
    boxes: OwnWrites[ConfigMap]
    children: ChildWriter[Toy]
    status: StatusWriter[Toy]
    finalizer: Finalizer[Toy]

    async def reconcile(self, key: Key) -> Result:
        toy = self.toys.get(key)
        if toy is None:
            return Result()
        if toy.metadata.deletionTimestamp is not None:
            await self.finalizer.finish(toy, self.cleanup)
            return Result()
        toy = await self.finalizer.add(toy)
        made = await self.children.ensure(toy, CONFIG_MAPS, box(toy), self.boxes)
        await self.status.write(toy, ToyStatus(box=made.metadata.name), conditions(toy))
        return Result()

    async def cleanup(self, toy: Toy) -> bool:
        """Deletes the box; True once a live list shows none. A deleted box brings the key back."""
        listing = await self.client.list(Query(CONFIG_MAPS, toy.metadata.namespace, labels=BOXES))
        writer = self.children.children
        left = [each for each in listing.items if writer.owns(toy.metadata, each.metadata)]
        for each in left:
            await writer.delete(CONFIG_MAPS, toy.metadata, each)
        return not left and not listing.skipped


def add_toys(manager: Manager, toys: Resource[Toy], namespace: str) -> Controller:
    client = manager.client
    cached = OwnWrites(manager.cache(Query(toys, namespace)))
    boxes = OwnWrites(manager.cache(Query(CONFIG_MAPS, namespace, labels=BOXES)))
    reconciler = ToyReconciler(
        client=client,
        toys=cached,
        boxes=boxes,
        children=ChildWriter(toys, Children(client, OWNER)),
        status=StatusWriter(toys, cached, client, owns=("Ready", "Large")),
        finalizer=Finalizer(FINALIZER, toys, cached, client),
    )
    sources: list[Source[Any]] = [primary(cached.store), owned_by_annotation(boxes.store, toys, OWNER)]
    return manager.controller("toy", reconciler.reconcile, sources)


async def install_toys(client: Client) -> Resource[Toy]:
    """Serves the kind, in a group of its own so that tests are apart."""
    resource = Resource(f"{secrets.token_hex(4)}.toys.example.org", "v1", "Toy", "toys", Toy)
    await client.create(DEFINITIONS, _definition(resource))

    async def served() -> bool:
        try:
            await client.list(Query(resource))
        except NotFound:
            return False
        return True

    await eventually(served, what=f"{resource.qualified_name} is served")
    return resource


def _definition(resource: Resource[Any]) -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
        "subresources": {"status": {}},
    }
    return {
        "metadata": {"name": resource.qualified_name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
            "versions": [version],
        },
    }
