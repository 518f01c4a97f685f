"""What is worked on first while many units start at once."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from equipment.fault_proxy import creates, updates, watches
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.labels import MANAGED
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.clock import SystemClock
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.test_handover import ready_stock
from kube.controllers.test_release import admitted
from kube.controllers.world import World

OTHERS = [f"later-{number}" for number in range(8)]


@mutant("controllers/registration.py", "return FIRST if workload.status.availableReplicas else 1", "return 1")
@mutant("controllers/registration.py", "GPU_UNITS, urgent=urgency), is_primary=True)", "GPU_UNITS), is_primary=True)")
async def test_a_unit_that_runs_is_called_ready_before_the_others_of_a_burst_are_built(world: World) -> None:
    one_worker = msgspec.structs.replace(world.settings, workers=1)
    unseen = world.proxy.on(watches("deployments")).freeze()  # before the watch begins: a later one could miss it
    async with world.reconciling(one_worker):
        queue, mine = world.controllers["gpuunit"].queue, Key(world.namespace, "runs")
        await world.create(demo_unit(world, "runs"))

        async def available() -> bool:
            found = await world.find("Deployment")
            return bool(found) and found[0].get("status", {}).get("availableReplicas") == 1

        await world.until(available, "the Deployment is available, unseen by the controller")
        held = world.proxy.on(creates("networkpolicies").named("busy"), times=1).hold()
        await world.create(demo_unit(world, "busy"))
        await held.arrived()
        for name in OTHERS:
            await world.create(demo_unit(world, name))
        others = {Key(world.namespace, name) for name in OTHERS}
        await world.until(lambda: others <= queue.pending(), "the only worker is busy, and the others wait")
        mark = world.proxy.mark()
        unseen.thaw()
        assert world.manager is not None
        cache = world.manager.cache(Query(DEPLOYMENTS, labels=MANAGED))
        await world.until(
            lambda: (made := cache.get(mine)) is not None and made.status.availableReplicas == 1,
            "the controller's cache shows that the Deployment is available",
        )
        held.release()
        told = updates("gpuunits").subresource("status").named("runs")
        await world.proxy.seen(told, since=mark)
        built = creates("networkpolicies").in_namespace(world.namespace)
        order = [each.call.name or each.name for each in world.proxy.calls(told | built, since=mark)]
    before = order[: order.index("runs")]
    # The one that was held, and in the worst case one more: nothing waits for ever.
    assert len(before) <= 2, order


class Stopped(SystemClock):
    """A clock that a test can stop at `stands`; until then every object seems old."""

    stands: datetime | None = None

    def now(self) -> datetime:
        return self.stands or super().now() + timedelta(minutes=1)


@mutant("controllers/ready_status.py", 'elif obj.status.phase == "Progressing":', "elif False:")
async def test_a_unit_that_waited_for_its_stock_is_next_called_ready_and_not_waiting_for_something_else(
    world: World,
) -> None:
    clock = Stopped()
    async with world.reconciling(clock=clock):
        await admitted(world, await ready_stock(world))
        await world.becomes("GPUUnit", "demo", "AwaitingStock", "stock-1 is not released yet")
        clock.stands = clock.now()
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "UnitReady")
    written = world.proxy.writes(updates("gpuunits").subresource("status").named("demo"))
    said = [each.call.body["status"]["conditions"][0]["reason"] for each in written if each.applied]
    assert said == ["AwaitingStock", "UnitReady"]
