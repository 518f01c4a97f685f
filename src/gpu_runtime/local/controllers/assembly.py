"""All controllers and the scheduler over one client, run as one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from pathlib import Path

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.controller import Source, mapped, owned, primary
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.store import Store, by_owner
from gpu_runtime.local.controllers.all_objects import AllObjects
from gpu_runtime.local.controllers.claiming import index_children
from gpu_runtime.local.controllers.deployment.reconcile import DeploymentReconciler
from gpu_runtime.local.controllers.endpoints import MANAGED_BY, MANAGER, EndpointSliceReconciler
from gpu_runtime.local.controllers.garbage.collector import GarbageCollector
from gpu_runtime.local.controllers.job.reconcile import JobReconciler
from gpu_runtime.local.controllers.namespace_defaults import (
    ACCOUNT,
    AUTHORITY,
    SERVICE_ACCOUNTS,
    NamespaceDefaultsReconciler,
)
from gpu_runtime.local.controllers.namespaces import NAMESPACES, NamespaceReconciler
from gpu_runtime.local.controllers.nodes import NODE, NodeReconciler, node_of_lease, node_of_pod
from gpu_runtime.local.controllers.quota import QUOTAS, QuotaReconciler, uncounted
from gpu_runtime.local.controllers.replicaset import ReplicaSetReconciler
from gpu_runtime.local.controllers.scheduler.loop import SCHEDULER, Scheduler
from gpu_runtime.local.controllers.volumes.binder import Binder
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from gpu_runtime.local.controllers.volumes.provisioner import Provisioner, ensure_classes
from gpu_runtime.local.kinds.machines import LEASES, NODE_LEASES, NODES
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.services import ENDPOINT_SLICES, SERVICES
from gpu_runtime.local.kinds.storage import CLAIMS, STORAGE_CLASSES
from gpu_runtime.local.kinds.wire import Metadata
from gpu_runtime.local.kinds.workloads import DEPLOYMENTS, JOBS, REPLICA_SETS

NAMESPACE = "namespace"
VOLUMES_FOLDER = "volumes"


class Workloads:
    """The controllers and the scheduler of one cluster. Volumes are folders under `data_dir`."""

    def __init__(self, client: Client, data_dir: Path) -> None:
        self._client = client
        self._recorders: list[Recorder] = []
        self._all_objects = AllObjects(client)
        self._collector = GarbageCollector(client, self._all_objects)
        self.manager = Manager(client)
        self._pods = self._cache_pods()
        self._nodes = self.manager.cache(Query(NODES))
        self._claims = self.manager.cache(Query(CLAIMS))
        self._claims.index(NAMESPACE, _by_namespace)
        self._services = self.manager.cache(Query(SERVICES))
        self._services.index(NAMESPACE, _by_namespace)
        self._classes = self.manager.cache(Query(STORAGE_CLASSES))
        self._add_workloads()
        self._add_services()
        Binder(self.manager, self._recorder("persistentvolume-controller"))
        Provisioner(self.manager, self._recorder(PROVISIONER), data_dir / VOLUMES_FOLDER)
        self._add_upkeep()
        self._scheduler = Scheduler(
            client, self._recorder(SCHEDULER), self._pods, self._nodes, self._claims, self._classes
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop`; then running reconciles end and the last events are written."""
        await ensure_classes(self._client)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(each)
                for each in (
                    self._collector.run(),
                    self._all_objects.run(),
                    self._schedule(),
                    *(one.run() for one in self._recorders),
                )
            ]
            await self.manager.run(stop)
            for task in tasks:
                task.cancel()
        for recorder in self._recorders:
            await recorder.flush()

    async def _schedule(self) -> None:
        # A scheduler with half a cache would place pods where others are already.
        await self.manager.leading.wait()
        await self._scheduler.run()

    def _recorder(self, component: str) -> Recorder:
        recorder = Recorder(self._client, component, f"{socket.gethostname()}-{os.getpid()}")
        self._recorders.append(recorder)
        return recorder

    def _cache_pods(self) -> Store[Pod]:
        pods = self.manager.cache(Query(PODS))
        index_children(pods)
        pods.index(NAMESPACE, _by_namespace)
        pods.index(NODE, lambda pod: (pod.spec.nodeName,) if pod.spec.nodeName else ())
        return pods

    def _add_workloads(self) -> None:
        manager, client, pods = self.manager, self._client, self._pods
        deployments, jobs = manager.cache(Query(DEPLOYMENTS)), manager.cache(Query(JOBS))
        sets = manager.cache(Query(REPLICA_SETS))
        index_children(sets)
        deployment = DeploymentReconciler(client, self._recorder("deployment-controller"), deployments, sets, pods)

        def deployment_of(pod: Pod) -> Iterable[Key]:
            """Recreate waits for the last old pod to go."""
            owner = pod.metadata.controller
            found = sets.get(Key(pod.metadata.namespace, owner.name)) if owner is not None else None
            reference = found.metadata.controller if found is not None else None
            return (Key(pod.metadata.namespace, reference.name),) if reference is not None else ()

        manager.controller(
            "deployment",
            deployment.reconcile,
            [primary(deployments), owned(sets, DEPLOYMENTS), mapped(pods, deployment_of)],
        )
        replica_set = ReplicaSetReconciler(client, self._recorder("replicaset-controller"), sets, pods)
        manager.controller("replicaset", replica_set.reconcile, [primary(sets), owned(pods, REPLICA_SETS)])
        job = JobReconciler(client, self._recorder("job-controller"), jobs, pods)
        manager.controller("job", job.reconcile, [primary(jobs), owned(pods, JOBS)])

    def _add_services(self) -> None:
        manager = self.manager
        slices = manager.cache(Query(ENDPOINT_SLICES, labels=f"{MANAGED_BY}={MANAGER}"))
        slices.index("owner", by_owner)
        reconciler = EndpointSliceReconciler(self._client, self._services, self._pods, slices)
        manager.controller(
            "endpointslice",
            reconciler.reconcile,
            [primary(self._services), owned(slices, SERVICES), mapped(self._pods, reconciler.services_of)],
        )

    def _add_upkeep(self) -> None:
        manager, client, pods = self.manager, self._client, self._pods
        namespaces = manager.cache(Query(NAMESPACES))
        namespace = NamespaceReconciler(client, namespaces, self._all_objects)
        namespace.feed(manager.controller("namespace", namespace.reconcile, [primary(namespaces)]))
        by_name = f"metadata.name={ACCOUNT}", f"metadata.name={AUTHORITY}"
        accounts = manager.cache(Query(SERVICE_ACCOUNTS, fields=by_name[0]))
        authorities = manager.cache(Query(CONFIG_MAPS.view(Metadata), fields=by_name[1]))
        furniture = NamespaceDefaultsReconciler(client, namespaces, accounts, authorities)
        manager.controller(
            "furniture",
            furniture.reconcile,
            [primary(namespaces), mapped(accounts, _namespace_of), mapped(authorities, _namespace_of)],
        )
        quotas = manager.cache(Query(QUOTAS))
        quotas.index(NAMESPACE, _by_namespace)
        quota = QuotaReconciler(client, quotas, pods, self._claims, self._all_objects)
        quota.feed(manager.controller("quota", quota.reconcile, [Source(quotas, uncounted, is_primary=True)]))
        leases = manager.cache(Query(LEASES, namespace=NODE_LEASES))
        node = NodeReconciler(client, self._recorder("node-controller"), self._nodes, leases, pods)
        manager.controller(
            "node",
            node.reconcile,
            [primary(self._nodes), mapped(leases, node_of_lease), mapped(pods, node_of_pod)],
        )


def _namespace_of(obj: Object) -> Iterable[Key]:
    return (Key("", obj.metadata.namespace),)


def _by_namespace(obj: Object) -> Iterable[str]:
    return (obj.metadata.namespace,)
