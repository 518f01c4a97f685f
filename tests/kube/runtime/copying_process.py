"""A controller process for tests: copies each ConfigMap labelled `role=parent` into a child while it leads."""

from __future__ import annotations

import sys
from pathlib import Path

from gpu_runtime.api.meta.object import Key, ObjectMeta, controller_reference
from gpu_runtime.kube import (
    Children,
    Client,
    Election,
    Manager,
    ProcessContext,
    Query,
    Result,
    Terms,
    owned,
    primary,
    run_process,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap

# Short enough to be waited for, long enough that a busy machine does not take the lease from a live leader.
TERMS = Terms(duration=8.0, give_up=6.0, retry=0.5)


def build(client: Client, namespace: str, identity: str) -> Manager:
    election = Election(client, Key(namespace, "leader"), identity, terms=TERMS)
    manager = Manager(client, election=election)
    parents = manager.cache(Query(CONFIG_MAPS, namespace, labels="role=parent"))
    copies = manager.cache(Query(CONFIG_MAPS, namespace, labels="role=child"))
    children = Children(client)

    async def reconcile(key: Key) -> Result:
        parent = parents.get(key)
        if parent is None:
            return Result()
        if "defect" in parent.data:
            controller.stop()  # plays a loop that ends by itself
            return Result()
        meta = ObjectMeta(
            name=f"{key.name}-child",
            namespace=namespace,
            labels={"role": "child"},
            ownerReferences=[controller_reference("v1", "ConfigMap", parent.metadata)],
        )
        copy = ConfigMap(metadata=meta, data=parent.data)
        await children.ensure(CONFIG_MAPS, copy, copies.get(meta.key))
        return Result()

    controller = manager.controller("copy", reconcile, [primary(parents), owned(copies, CONFIG_MAPS)])
    return manager


def run(kubeconfig: Path, namespace: str, identity: str, port: int) -> int:
    async def main(process: ProcessContext) -> None:
        async with process.kubernetes() as client:
            manager = build(client, namespace, identity)
            process.health.add(manager.checks, manager.metrics.registry)
            await manager.run(process.stop)

    return run_process(main, user_agent=identity, health=("127.0.0.1", port), kubeconfig=kubeconfig)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
