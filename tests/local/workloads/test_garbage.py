"""The garbage collector and kinds that come later than what they own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from equipment.servers import start_embedded
from equipment.waiting import eventually
from gpu_runtime.kube import Client, load_config
from gpu_runtime.local.controllers.all_objects import AllObjects
from gpu_runtime.local.controllers.garbage import collector
from gpu_runtime.local.controllers.garbage.collector import GarbageCollector
from local.workloads.test_local_cluster import DEFINITIONS, THINGS

CHILD = "/api/v1/namespaces/default/configmaps"


async def test_a_child_is_looked_at_again_when_the_kind_of_its_owner_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "UNKNOWN_KIND_SECONDS", 1e6)  # looking again in time must not be what helps
    with start_embedded(tmp_path) as server:
        async with Client(load_config(server.kubeconfig), user_agent="garbage") as client:
            all_objects = AllObjects(client)
            garbage = GarbageCollector(client, all_objects)
            running = [asyncio.create_task(garbage.run()), asyncio.create_task(all_objects.run())]
            try:
                owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "gone", "uid": "of-no-object"}
                child = {"metadata": {"name": "child", "ownerReferences": [owner]}}
                assert server.request("POST", CHILD, child).status == 201
                await eventually(lambda: len(garbage._of_unknown_kinds) == 1, what="the child was looked at")
                assert server.request("POST", DEFINITIONS, THINGS).status == 201
                await eventually(
                    lambda: server.request("GET", f"{CHILD}/child").status == 404, what="the child is gone"
                )
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
