"""A complete controller: every Namespace labelled `notice: <text>` gets a ConfigMap `notice` with that text.

    KUBECONFIG=... python examples/namespace_notice.py
    kubectl label namespace default notice=hello; kubectl get configmap notice -o yaml

Edit the ConfigMap and it is put back; remove the label and it goes; one of that name that is not ours is left alone.
"""

from __future__ import annotations

import sys

from gpu_runtime.api.meta.object import Key, ObjectMeta, controller_reference
from gpu_runtime.kube import Children, Client, Manager, ProcessContext, Query, Result, owned, primary, run_process
from gpu_runtime.kube.builtin import CONFIG_MAPS, NAMESPACES, ConfigMap, Namespace

LABEL = "notice"


def notice(namespace: Namespace) -> ConfigMap:
    """The ConfigMap of a labelled namespace. Pure: same input, same object."""
    owner = controller_reference(NAMESPACES.api_version, NAMESPACES.kind, namespace.metadata)
    meta = ObjectMeta(name="notice", namespace=namespace.metadata.name, ownerReferences=[owner])
    return ConfigMap(metadata=meta, data={"text": namespace.metadata.labels[LABEL]})


def build(client: Client) -> Manager:
    """Two caches, one controller."""
    manager = Manager(client)
    namespaces = manager.cache(Query(NAMESPACES))
    config_maps = manager.cache(Query(CONFIG_MAPS, fields="metadata.name=notice"))
    children = Children(client)

    async def reconcile(key: Key) -> Result:
        namespace = namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return Result()  # its children go with it
        cached = config_maps.get(Key(key.name, "notice"))
        if LABEL in namespace.metadata.labels:
            await children.ensure(CONFIG_MAPS, notice(namespace), cached)
        elif cached is not None and cached.metadata.controller is not None:
            await children.delete(CONFIG_MAPS, namespace.metadata, cached)
        return Result()

    manager.controller("notice", reconcile, [primary(namespaces), owned(config_maps, NAMESPACES)])
    return manager


async def main(process: ProcessContext) -> None:
    async with process.kubernetes() as client:
        await build(client).run(process.stop)


if __name__ == "__main__":
    sys.exit(run_process(main))
