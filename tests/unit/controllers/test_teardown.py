"""Deleting the Deployment of a unit that is gone, decided on a cache that is behind."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from equipment.builders import a_deployment, a_unit
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.jobs import Job
from gpu_runtime.controllers.child_kinds.network import NetworkPolicy, Service
from gpu_runtime.controllers.child_kinds.volumes import PersistentVolumeClaim, StorageClassView
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS, Deployment, PodView, ReplicaSetView
from gpu_runtime.controllers.gpuunit.teardown import Teardown
from gpu_runtime.kube import OwnWrites, Store
from gpu_runtime.kube.errors import Conflict
from gpu_runtime.kube.resource import Resource
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory

KEY = Key("runtime-instance", "demo")
OWNED = a_deployment(KEY.name, KEY.namespace).controlled_by(a_unit(KEY.name).with_uid("of-a-deleted-unit"))


class Server(Memory):
    """The API in memory; what a deleted Deployment owns is not there."""

    async def delete(self, resource: Resource[Any], key: Key, *, propagation: str = "", **conditions: Any) -> None:
        assert propagation == "Background"
        await super().delete(resource, key, **conditions)


def teardown(server: Server) -> Teardown:
    """That of a controller whose caches show the Deployment as the server has it now."""
    deployments = Store[Deployment]()
    deployments.replace(server.of_kind(DEPLOYMENTS), str(server.version))
    caches = Caches(
        pools=OwnWrites(Store[StockPool]()),
        units=OwnWrites(Store[GPUUnit]()),
        storages=OwnWrites(Store[GPUStorage]()),
        deployments=OwnWrites(deployments),
        services=OwnWrites(Store[Service]()),
        policies=OwnWrites(Store[NetworkPolicy]()),
        claims=OwnWrites(Store[PersistentVolumeClaim]()),
        jobs=OwnWrites(Store[Job]()),
        classes=Store[StorageClassView](),
        replica_sets=Store[ReplicaSetView](),
        pods=Store[PodView](),
        unfinished=Store[Operation](),
    )
    return Teardown(server, caches)  # type: ignore[arg-type]


def test_the_deployment_of_a_unit_that_is_gone_is_deleted() -> None:
    server = Server()
    server.put(DEPLOYMENTS, OWNED.into(Deployment))
    finish(teardown(server).remove(KEY))
    assert not server.of_kind(DEPLOYMENTS)


@mutant("controllers/gpuunit/teardown.py", "uid=uid, resource_version=version, propagation", "uid=uid, propagation")
def test_a_deployment_that_was_left_to_its_user_stays_though_the_cache_still_shows_its_owner() -> None:
    server = Server()
    made = server.put(DEPLOYMENTS, OWNED.into(Deployment))
    behind = teardown(server)
    # `kubectl delete --cascade=orphan` takes the owner out, and then the unit goes.
    left = finish(server.replace(DEPLOYMENTS, replace(made, metadata=replace(made.metadata, ownerReferences=[]))))
    with pytest.raises(Conflict):
        finish(behind.remove(KEY))
    assert server.of_kind(DEPLOYMENTS) == [left]
