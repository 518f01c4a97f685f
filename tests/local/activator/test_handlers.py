"""Functions as source: a ConfigMap for each version that a worker uses."""

from __future__ import annotations

from typing import Any

from equipment.builders import Builder
from equipment.builders.base import new_document
from equipment.mutation import mutant
from equipment.nats import NatsServer
from gpu_runtime.activator.resources import names
from gpu_runtime.api.v1alpha1.annotations import FUNCTION_FINALIZER
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from local.activator.world import NAMESPACE, World, function, world

UNIT = {"specName": "cpu.small", "memory": "256Mi"}


def sourced(source: str, **spec: Any) -> Builder:
    return function(unit=UNIT, handler={"source": source, "entry": "main"}, minWorkers=1, **spec)


ONE = "def main(payload):\n    return 1\n"
TWO = "def main(payload):\n    return 2\n"


def sources(activator: World) -> list[str]:
    return [document["data"]["handler.py"] for document in activator.api.of_kind("ConfigMap")]


def mounted(activator: World, slot: int = 0) -> str:
    unit = activator.unit(slot)
    assert unit is not None
    return str(unit["spec"]["serverless"]["handler"]["configMapName"])


async def test_the_source_is_there_before_the_worker_that_mounts_it(server: NatsServer) -> None:
    async with world(server, sourced(ONE)) as activator:
        await activator.settle()
        assert sources(activator) == [ONE]
        made = activator.api.of_kind("ConfigMap")[0]
        assert made["immutable"] is True
        assert made["metadata"]["ownerReferences"][0]["uid"] == "echo-uid"
        assert mounted(activator) == made["metadata"]["name"]
        writes = [write for write in activator.api.writes if write.startswith("create")]
        assert [write.split()[1] for write in writes] == ["ConfigMap", "GPUUnit"]


@mutant("activator/handlers.py", "or found.metadata.name in used", "")
async def test_an_old_source_stays_while_a_worker_mounts_it(server: NatsServer) -> None:
    async with world(server, sourced(ONE)) as activator:
        await activator.settle()
        activator.ready(0)
        activator.api.put(sourced(TWO).kept_by(FUNCTION_FINALIZER).at_generation(2))
        await activator.settle()
        assert sorted(sources(activator)) == [ONE, TWO]
        activator.beat(0, "draining")
        await activator.settle()
        assert sources(activator) == [TWO]
        assert mounted(activator) == activator.api.of_kind("ConfigMap")[0]["metadata"]["name"]


async def test_a_source_that_somebody_deleted_is_made_again(server: NatsServer) -> None:
    async with world(server, sourced(ONE)) as activator:
        await activator.settle()
        activator.api.objects = {key: each for key, each in activator.api.objects.items() if key[0] != "ConfigMap"}
        await activator.settle()
        assert sources(activator) == [ONE]


async def test_a_foreign_config_map_is_reported_and_not_touched(server: NatsServer) -> None:
    name = names.handler(sourced(ONE).into(GPUFunction))
    foreign = Builder({**new_document("v1", "ConfigMap", name, NAMESPACE), "data": {"theirs": "1"}})
    async with world(server, sourced(ONE), foreign) as activator:
        await activator.reconcile()
        assert activator.condition[:2] == ("Failed", "NameConflict")
        assert activator.api.of_kind("ConfigMap")[0]["data"] == {"theirs": "1"}
        assert activator.slots == []
