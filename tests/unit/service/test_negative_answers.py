"""A cache may be as old as it likes: no client is told "no" because of it. The server confirms every negative fact."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.rest.errors import Clash, InsufficientCapacity, Missing, SpecConflict, Unavailable
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.service.stock.nodes import NODES
from gpu_runtime.service.stock.seeding import Seeding
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import (
    NODE,
    PLATFORM,
    Replica,
    a_node,
    a_stock_unit,
    a_users_unit,
    a_world,
    key_of,
)


def made_again(memory: Memory) -> Replica:
    """A replica that knows a unit; meanwhile another one of the same name took its place."""
    memory.put(GPU_UNITS, a_users_unit())
    replica = Replica(memory).listen()
    finish(memory.delete(GPU_UNITS, key_of("demo")))
    memory.put(GPU_UNITS, a_users_unit())
    return replica


def is_there(memory: Memory) -> bool:
    return (GPU_UNITS.kind, key_of("demo")) in memory.objects


@mutant(
    "service/units/units.py",
    "                unit = await self.find_live(key)\n",
    "                raise _missing(key) from error\n",
)
def test_a_unit_that_was_made_again_can_be_deleted_by_a_replica_that_knows_only_the_earlier_one() -> None:
    memory = a_world(Memory())
    finish(made_again(memory).units.delete(None, "demo"))
    assert not is_there(memory)


def test_if_match_names_a_version_of_the_unit_that_is_there_not_of_the_cached_one() -> None:
    memory = a_world(Memory())
    replica = made_again(memory)
    with pytest.raises(Clash):
        finish(replica.units.delete(None, "demo", "1"))
    version = memory.objects[GPU_UNITS.kind, key_of("demo")].metadata.resourceVersion
    finish(replica.units.delete(None, "demo", version))
    assert not is_there(memory)


def test_deleting_a_unit_that_only_the_cache_still_has_is_answered_not_found() -> None:
    memory = a_world(Memory())
    memory.put(GPU_UNITS, a_users_unit())
    replica = Replica(memory).listen()
    finish(memory.delete(GPU_UNITS, key_of("demo")))
    with pytest.raises(Missing):
        finish(replica.units.delete(None, "demo"))


@mutant(
    "service/units/units.py", "GPU_UNITS, key, uid=unit.metadata.uid, resource", "GPU_UNITS, key, uid=None, resource"
)
def test_a_deleted_unit_is_not_shown_when_the_cache_hears_of_its_creation_late() -> None:
    """A deletion that does not name the unit may hit another than the one that is remembered as deleted."""
    memory = a_world(Memory())
    replica = made_again(memory)
    there = memory.objects[GPU_UNITS.kind, key_of("demo")]
    finish(replica.units.delete(None, "demo"))
    replica.unit_cache.upsert(there)
    with pytest.raises(Missing):
        finish(replica.units.get(None, "demo"))


@mutant("service/stock/pools.py", "uid=pool.metadata.uid)", "uid=None)")
def test_a_pool_that_takes_the_name_of_the_one_that_is_being_deleted_stays() -> None:
    memory = a_world(Memory())
    replica = Replica(memory)
    pool = StockPool(metadata=ObjectMeta(name="p", namespace="default"), spec=StockPoolSpec(specName="g1", replicas=0))
    replica.pool_cache.replace([memory.put(STOCK_POOLS, pool)], str(memory.version))
    deletion = Process("deletion", lambda: replica.pools.delete(None, "p"))
    while deletion.next != "delete StockPool p":
        deletion.step()
        assert not deletion.done
    finish(memory.delete(STOCK_POOLS, pool.metadata.key))
    memory.put(STOCK_POOLS, pool)
    while not deletion.done:
        deletion.step()
    assert memory.of_kind(STOCK_POOLS)


@mutant(
    "service/reading.py",
    "        live = await self.live(key)\n        return live",
    "        live = await self.get(key)\n        return live",
)
def test_the_job_of_a_live_unit_never_says_deleted_because_the_cache_has_another_unit() -> None:
    memory = a_world(Memory())
    memory.put(GPU_UNITS, a_users_unit())
    replica = Replica(memory).listen()
    finish(memory.delete(GPU_UNITS, key_of("demo")))
    Replica(memory).listen().create()  # another process makes its own
    (record,) = memory.of_kind(OPERATIONS)
    assert finish(replica.executors.of_units.deleted(record)) is False
    finish(memory.delete(GPU_UNITS, key_of("demo")))
    assert finish(replica.executors.of_units.deleted(record)) is True


@mutant("service/reading.py", "if not _stays(namespace):  # the cache", "if namespace is None:  # the cache")
def test_a_namespace_that_was_created_again_is_not_refused_as_being_deleted() -> None:
    memory = a_world(Memory())
    replica = Replica(memory).listen()
    live = memory.objects[NAMESPACES.kind, Key("", PLATFORM.instance_namespace)]
    leaving = replace(live.metadata, deletionTimestamp=datetime(2026, 1, 1, tzinfo=UTC))
    replica.namespace_cache.replace([Namespace(metadata=replace(leaving, resourceVersion="0"))], "1")
    assert replica.create()[1] is True
    memory.objects[NAMESPACES.kind, Key("", PLATFORM.instance_namespace)] = Namespace(metadata=leaving)
    with pytest.raises(Missing, match="is being deleted"):
        finish(replica.namespaces.require(PLATFORM.instance_namespace))


@pytest.mark.parametrize("unknown", ["nodes", "units"])
@mutant("service/stock/picker.py", "            self._check_listed()\n", "")
def test_while_a_replica_starts_it_asks_for_patience_and_claims_no_lack_of_capacity(unknown: str) -> None:
    memory = a_world(Memory())
    replica = Replica(memory)
    version = str(memory.version)
    if unknown == "nodes":
        replica.unit_cache.replace(memory.of_kind(GPU_UNITS), version)
    else:
        replica.node_cache.replace(memory.of_kind(NODES), version)
    with pytest.raises(Unavailable) as told:
        replica.create()
    assert told.value.retry_after > 0
    assert not memory.of_kind(OPERATIONS)
    assert replica.listen().create()[1] is True


@mutant(
    "service/units/unit_executor.py",
    "except (Missing, Clash, Unavailable):",
    "except (Missing, Clash):",
)
def test_a_replay_is_answered_by_a_replica_that_has_just_started() -> None:
    memory = a_world(Memory())
    first, _ = Replica(memory).listen().create()
    again, new = Replica(memory).create()
    assert (again.name, again.sourceStockName, new) == (first.name, first.sourceStockName, False)


@mutant("service/stock/picker.py", "if found or self._nodes is None:", "if True:")
def test_a_node_that_was_opened_again_serves_although_the_cache_calls_it_closed() -> None:
    memory = a_world(Memory())
    replica = Replica(memory).listen()
    replica.node_cache.replace([a_node(closed=True)], "1")
    assert replica.create()[1] is True


def test_a_node_that_is_closed_indeed_is_asked_for_once_and_then_reported() -> None:
    memory = a_world(Memory(), stock=3)
    memory.objects[NODES.kind, Key("", NODE)] = a_node(closed=True)
    replica = Replica(memory).listen()
    reads: list[str] = []
    get = memory.get

    async def noted(resource, key):  # type: ignore[no-untyped-def]
        if resource is NODES:
            reads.append(key.name)
        return await get(resource, key)

    memory.get = noted  # type: ignore[method-assign]
    with pytest.raises(InsufficientCapacity, match="3 on a node that is down or cordoned"):
        replica.create()
    assert reads == [NODE]


@mutant("service/stock/picker.py", "for unit in (*seeded, *by_hand)", "for unit in seeded")
def test_stock_made_by_hand_that_the_cache_has_not_seen_yet_is_handed_over() -> None:
    memory = a_world(Memory(), stock=0)
    replica = Replica(memory).listen()
    memory.put(GPU_UNITS, a_stock_unit("by-hand", labelled=False))
    view, _ = replica.create()
    assert view.sourceStockName == "by-hand"


@mutant("service/units/unit_executor.py", "except AlreadyExists:  #", "except ZeroDivisionError:  #")
def test_the_unit_of_a_lost_record_is_told_of_by_a_replica_whose_cache_lacks_it() -> None:
    memory = a_world(Memory())
    replica = Replica(memory).listen()
    first, _ = replica.create()
    (record,) = memory.of_kind(OPERATIONS)
    finish(memory.delete(OPERATIONS, record.metadata.key))
    again, new = replica.create()
    assert (again.sourceStockName, new) == (first.sourceStockName, False)
    assert len([unit for unit in memory.of_kind(GPU_UNITS) if unit.metadata.namespace == "runtime-stock"]) == 1
    with pytest.raises(NotFound):
        finish(memory.get(GPU_UNITS, Key("runtime-stock", first.sourceStockName)))


def test_a_unit_of_somebody_else_is_still_refused() -> None:
    memory = a_world(Memory())
    replica = Replica(memory).listen()
    memory.put(GPU_UNITS, replace(a_users_unit(), metadata=ObjectMeta(name="demo", namespace="runtime-instance")))
    with pytest.raises(Clash, match="this request did not create it"):
        replica.create()
    assert not memory.of_kind(OPERATIONS)


@mutant(
    "service/stock/seeding.py",
    "            except kube.NotFound:\n                continue\n            if unit",
    "            except kube.NotFound:\n                unit = cached\n            if unit",
)
def test_a_spec_whose_stock_was_all_deleted_takes_another_size_though_the_cache_still_has_the_old_stock() -> None:
    replica = Replica(a_world(Memory(), stock=1)).listen()
    seeding = Seeding(replica.memory, replica.operations, replica.picker, PLATFORM.stock_namespace)
    sent = {"operationID": "s", "specName": "g1", "memory": "64Gi", "gpu": 2, "replicas": 1}
    with pytest.raises(SpecConflict):
        finish(seeding.check_known(parse(CreateStockUnits, sent)))
    finish(replica.memory.delete(GPU_UNITS, Key(PLATFORM.stock_namespace, "stock-0")))
    finish(seeding.check_known(parse(CreateStockUnits, sent)))
