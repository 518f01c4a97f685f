"""One row of a reconciler's table: the objects before, one reconcile, and what it wrote, said and asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from equipment.builders import Builder
from equipment.clock import FakeClock
from equipment.memory_api import Document, MemoryApi
from gpu_runtime.api.meta.object import Key
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.config.controller_manager import ServerlessSettings
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube import Manager, Recorder, Result
from gpu_runtime.kube.client import document_of
from unit.controllers.children import Case

SETTINGS = ControllerManagerSettings(serverless=ServerlessSettings(brokerURL="nats://nats.test:4222"))
CLOCK = FakeClock()
NOW = CLOCK.now().isoformat()


@dataclass(frozen=True)
class Row:
    """`have` begins with the object that is reconciled, unless `gone` names one that no longer exists."""

    have: Sequence[Builder]
    writes: Sequence[str] = ()
    phase: str | None = None
    """Phase afterwards. None: the status is as it was before."""
    reason: str = ""
    says: str = ""
    """Part of the message of the Ready condition."""
    status: dict[str, Any] = field(default_factory=dict)
    """Further fields of the status afterwards."""
    events: Sequence[str] = ()
    again: float | None = None
    """Seconds after which the reconciler asks to come back."""
    raises: type[Exception] | None = None
    failures: dict[str, Exception] = field(default_factory=dict)
    gone: Key | None = None
    settings: ControllerManagerSettings = SETTINGS

    @property
    def key(self) -> Key:
        if self.gone is not None:
            return self.gone
        meta = self.have[0].document()["metadata"]
        return Key(meta["namespace"], meta["name"])


class World:
    """The controllers of the process on an API in memory. Their caches show everything when a reconcile begins."""

    def __init__(self, row: Row) -> None:
        self.api = MemoryApi(CLOCK, row.failures)
        for builder in row.have:
            self.api.put(builder)
        client: Any = self.api
        self.recorder = Recorder(client, "controller-manager", "test", clock=CLOCK)
        self.manager = Manager(client)
        self.controllers = add_controllers(self.manager, row.settings, recorder=self.recorder, clock=CLOCK)
        self.api.fill(self.manager)

    async def reconcile(self, controller: str, key: Key) -> Result:
        result = await self.controllers[controller]._reconcile(key)
        await self.recorder.flush()
        return result

    @property
    def events(self) -> list[str]:
        """Events that the reconcilers wrote."""
        ours = [each for each in self.api.of_kind("Event") if "source" in each]
        return [f"{each['type']} {each['reason']}: {each['message']}" for each in ours]


async def check(controller: str, kind: str, row: Row) -> None:
    """Reconciles once and compares; then reconciles until nothing changes any more, which must come soon."""
    world = World(row)
    before = world.api.find(kind, row.key.name)
    if row.raises is not None:
        with pytest.raises(row.raises):
            await world.reconcile(controller, row.key)
        await world.recorder.flush()
    else:
        assert await world.reconcile(controller, row.key) == Result(row.again)
    assert world.api.writes == list(row.writes)
    assert len(world.events) == len(row.events), world.events
    assert all(want in said for want, said in zip(row.events, world.events, strict=True)), world.events
    _check_status(row, before, world.api.find(kind, row.key.name))
    if row.raises is None:
        await _comes_to_rest(world, controller, row.key)


def _check_status(row: Row, before: Document | None, after: Document | None) -> None:
    if row.phase is None:
        assert after is None or before is None or after.get("status") == before.get("status")
        return
    assert after is not None
    status = after["status"]
    ready = {each["type"]: each for each in status["conditions"]}["Ready"]
    assert (status["phase"], ready["reason"]) == (row.phase, row.reason)
    assert ready["status"] == ("True" if row.phase == "Ready" else "False")
    assert ready["observedGeneration"] == status["observedGeneration"] == after["metadata"]["generation"]
    assert row.says in ready["message"]
    assert {name: status.get(name) for name in row.status} == row.status


async def _comes_to_rest(world: World, controller: str, key: Key) -> None:
    for _ in range(5):
        before = world.api.changes
        world.api.fill(world.manager)
        await world.reconcile(controller, key)
        if world.api.changes == before:
            return
    pytest.fail(f"5 reconciles later it still writes: {world.api.writes}")


def children_of(owner: Builder, kind: type[Any]) -> dict[str, Builder]:
    """The children of an object by kind, as an earlier reconcile made them."""
    built = Case(owner.into(kind), SETTINGS).children()
    documents = [document_of(resource, child) for resource, child in built]
    return {document["kind"]: Builder(document) for document in documents}


def available(deployment: Builder, count: int = 1) -> Builder:
    """The Deployment as its controller reports it when `count` pods are available."""
    numbers = {"observedGeneration": 1, "replicas": count, "updatedReplicas": count, "availableReplicas": count}
    return deployment.status(**numbers)
