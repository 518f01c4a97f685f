"""A controller process for tests: copies each ConfigMap labelled `role=parent` into a child while it leads."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gpu_runtime.api.meta.object import Key, ObjectMeta, controller_reference
from gpu_runtime.kube import (
    Children,
    Client,
    Election,
    Manager,
    Query,
    Result,
    Terms,
    load_config,
    owned,
    primary,
    stop_on_signal,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap

# Short enough to be waited for, long enough that a busy machine does not take the lease from a live leader.
TERMS = Terms(duration=8.0, give_up=6.0, retry=0.5)


def build(client: Client, namespace: str, identity: str, port: int) -> Manager:
    election = Election(client, Key(namespace, "leader"), identity, terms=TERMS)
    manager = Manager(client, election=election, health=("127.0.0.1", port))
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


async def main(kubeconfig: Path, namespace: str, identity: str, port: int) -> None:
    async with Client(load_config(kubeconfig), user_agent=identity) as client:
        with stop_on_signal() as stop:
            await build(client, namespace, identity, port).run(stop)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
