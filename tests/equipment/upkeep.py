"""Controllers of the embedded cluster without which no pod can be made: those of ServiceAccounts and of quotas."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube import Client, Manager, Query, load_config
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.controller import Source, mapped, primary
from gpu_runtime.local.controllers.all_objects import NAMESPACE, AllObjects
from gpu_runtime.local.controllers.namespace_defaults import (
    ACCOUNT,
    AUTHORITY,
    SERVICE_ACCOUNTS,
    NamespaceDefaultsReconciler,
)
from gpu_runtime.local.controllers.namespaces import NAMESPACES
from gpu_runtime.local.controllers.quota import QUOTAS, QuotaReconciler, uncounted
from gpu_runtime.local.kinds.pods import PODS
from gpu_runtime.local.kinds.storage import CLAIMS
from gpu_runtime.local.kinds.wire import Metadata

STOP_SECONDS = 60


@contextmanager
def upkeep(kubeconfig: Path) -> Iterator[None]:
    """Runs both controllers in a thread of this process inside the block."""
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_run(kubeconfig, stop)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_SECONDS)


async def _run(kubeconfig: Path, told: threading.Event) -> None:
    stop = asyncio.Event()
    async with Client(load_config(kubeconfig), user_agent="upkeep") as client, asyncio.TaskGroup() as group:
        manager, all_objects = Manager(client), AllObjects(client)
        _add_furniture(manager, client)
        _add_quotas(manager, client, all_objects)
        following = group.create_task(all_objects.run())
        working = group.create_task(manager.run(stop))
        await asyncio.to_thread(told.wait)
        stop.set()
        await working
        following.cancel()


def _add_furniture(manager: Manager, client: Client) -> None:
    namespaces = manager.cache(Query(NAMESPACES))
    accounts = manager.cache(Query(SERVICE_ACCOUNTS, fields=f"metadata.name={ACCOUNT}"))
    authorities = manager.cache(Query(CONFIG_MAPS.view(Metadata), fields=f"metadata.name={AUTHORITY}"))
    furniture = NamespaceDefaultsReconciler(client, namespaces, accounts, authorities)
    manager.controller(
        "furniture",
        furniture.reconcile,
        [primary(namespaces), mapped(accounts, _namespace_of), mapped(authorities, _namespace_of)],
    )


def _add_quotas(manager: Manager, client: Client, all_objects: AllObjects) -> None:
    quotas, pods = manager.cache(Query(QUOTAS)), manager.cache(Query(PODS))
    claims = manager.cache(Query(CLAIMS))
    for store in (quotas, pods, claims):
        store.index(NAMESPACE, lambda obj: (obj.metadata.namespace,))
    quota = QuotaReconciler(client, quotas, pods, claims, all_objects)
    quota.feed(manager.controller("quota", quota.reconcile, [Source(quotas, uncounted, is_primary=True)]))


def _namespace_of(obj: Object) -> Iterable[Key]:
    return (Key("", obj.metadata.namespace),)
