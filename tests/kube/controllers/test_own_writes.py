"""What a controller wrote itself is known to it before its caches show it."""

from __future__ import annotations

from equipment.builders import a_stock_pool, a_storage
from equipment.fault_proxy import creates, updates, watches, writes
from equipment.mutation import mutant
from equipment.waiting import eventually
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.world import World

LAGGING = (
    "deployments",
    "services",
    "networkpolicies",
    "pods",
    "persistentvolumeclaims",
    "gpuunits",
    "stockpools",
    "gpustorages",
)


@mutant("kube/child_writer.py", "return cache.wrote(written.object)", "return written.object")
@mutant("kube/status_writer.py", "        self.cache.wrote(written)\n", "")
@mutant("kube/own_writes.py", "            self._written[obj.metadata.key] = obj\n", "            pass\n")
async def test_caches_that_lag_behind_make_a_controller_write_nothing_twice(world: World) -> None:
    for kind in LAGGING:
        world.proxy.on(watches(kind)).freeze()
    await world.create(demo_unit(world).spec(access={}))
    await world.create(a_stock_pool("pool", world.namespace).spec(memory="not-a-quantity"))
    await world.create(a_storage("data", world.namespace).spec(storageClassName="missing"))
    async with world.reconciling():
        for kind in ("deployments", "services", "networkpolicies", "persistentvolumeclaims"):
            await world.proxy.seen(creates(kind))
        await world.proxy.seen(updates("gpuunits"))
        await world.proxy.seen(updates("stockpools"))
        await world.becomes("StockPool", "pool", "InvalidSpec")
        await world.becomes("GPUStorage", "data", "StorageProvisioningFailed")
        mark = world.proxy.mark()
        for _ in range(3):
            before = {name: _reconciled(world, name) for name in world.controllers}
            for controller in world.controllers.values():
                controller.resync()
            await eventually(lambda: all(_reconciled(world, name) > count for name, count in before.items()))  # noqa: B023
        again = [str(write) for write in world.proxy.writes(~writes("events"), since=mark)]
        # Units of earlier tests may still be on their way out in namespaces of theirs.
        assert [write for write in again if world.namespace in write] == []
    for kind in ("GPUStorage", "PersistentVolumeClaim"):
        await world.change(kind, "data", {"metadata": {"finalizers": None}})


def _reconciled(world: World, controller: str) -> float:
    assert world.manager is not None
    registry = world.manager.metrics.registry
    return sum(
        sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "controller_reconciles_total" and sample.labels["controller"] == controller
    )
