from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from equipment.clock import FakeClock
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key, ObjectMeta, OwnerReference
from gpu_runtime.kube import (
    Conflict,
    Controller,
    Result,
    RetryAfter,
    Source,
    Store,
    Terminal,
    TooManyRequests,
    mapped,
    owned,
    primary,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, NAMESPACES, ConfigMap
from gpu_runtime.kube.resource import Resource

A = Key("ns", "a")


def a_config_map(name: str, version: int, owner: OwnerReference | None = None) -> ConfigMap:
    owners = [owner] if owner else []
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace="ns", uid=name, resourceVersion=str(version), ownerReferences=owners)
    )


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        controller.stop()
        await task


@mutant(
    "kube/controller.py", "outcome = await self._once(key)", "outcome = 'done'; asyncio.ensure_future(self._once(key))"
)
async def test_a_key_is_never_reconciled_twice_at_once() -> None:
    store = Store[ConfigMap]()
    active, most = Counter[Key](), Counter[Key]()
    gate = asyncio.Event()
    runs = 0

    async def reconcile(key: Key) -> Result:
        nonlocal runs
        runs += 1
        active[key] += 1
        most[key] = max(most[key], active[key])
        await gate.wait()
        active[key] -= 1
        return Result()

    controller = Controller("test", reconcile, [primary(store)], workers=8)
    async with running(controller):
        for version in range(1, 50):
            store.upsert(a_config_map("a", version))
            await asyncio.sleep(0)
        gate.set()
        await eventually(lambda: runs == 2 and not active[A])
    assert most[A] == 1


POLICIES: dict[str, tuple[Callable[[], Exception], float]] = {
    "a terminal error waits for the object to change": (lambda: Terminal("no"), float("inf")),
    "a known time is waited for": (lambda: RetryAfter(42.0, "later"), 42.0),
    "a conflict is tried again soon": (
        lambda: Conflict(409, "Conflict", "stale", causes=[], retry_after=None),
        0.005,
    ),
    "an error without a time backs off": (lambda: RuntimeError("bug"), 0.005),
    "what the server asked for is honoured": (
        lambda: TooManyRequests(429, "TooManyRequests", "slow down", causes=[], retry_after=9.0),
        9.0,
    ),
    "a reconcile that takes too long is stopped": (TimeoutError, 0.005),
}


@pytest.mark.parametrize(("error", "delay"), POLICIES.values(), ids=POLICIES)
@mutant(
    "kube/controller.py", "at_least=(error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0", "at_least=0.0"
)
async def test_the_error_says_when_to_try_again(error: Callable[[], Exception], delay: float) -> None:
    clock = FakeClock()
    store = Store[ConfigMap]()
    runs = 0

    async def reconcile(_: Key) -> Result:
        nonlocal runs
        runs += 1
        raise error()

    controller = Controller("test", reconcile, [primary(store)], clock=clock)
    with capture_logs():
        async with running(controller):
            store.upsert(a_config_map("a", 1))
            await eventually(lambda: runs == 1 and not controller.queue._busy)
            due = controller.queue._due.get(A, float("inf"))
            assert round(due - clock.monotonic(), 6) == delay
            if delay == float("inf"):
                store.upsert(a_config_map("a", 2))
                await eventually(lambda: runs == 2)


async def test_a_result_may_ask_to_be_looked_at_again() -> None:
    store = Store[ConfigMap]()

    async def reconcile(_: Key) -> Result:
        return Result(requeue_after=30.0)

    clock = FakeClock()
    controller = Controller("test", reconcile, [primary(store)], clock=clock)
    async with running(controller):
        store.upsert(a_config_map("a", 1))
        await eventually(lambda: A in controller.queue._due)
        assert controller.queue._due[A] - clock.monotonic() == 30.0


async def test_a_defect_in_one_reconcile_leaves_its_trace_and_stops_no_other() -> None:
    store = Store[ConfigMap]()
    done: list[str] = []

    async def reconcile(key: Key) -> Result:
        if key.name == "bad":
            raise ZeroDivisionError
        done.append(key.name)
        return Result()

    controller = Controller("test", reconcile, [primary(store)], workers=1)
    with capture_logs() as logs:
        async with running(controller):
            store.upsert(a_config_map("bad", 1))
            store.upsert(a_config_map("good", 2))
            await eventually(lambda: done == ["good"])
    assert any(line.get("exc_info") for line in logs)


async def test_a_reconcile_past_its_deadline_is_stopped_and_tried_again() -> None:
    store = Store[ConfigMap]()
    runs = 0

    async def reconcile(_: Key) -> Result:
        nonlocal runs
        runs += 1
        if runs == 1:
            await asyncio.Event().wait()
        return Result()

    controller = Controller("test", reconcile, [primary(store)], deadline=0.01)
    with capture_logs():
        async with running(controller):
            store.upsert(a_config_map("a", 1))
            await eventually(lambda: runs == 2)


@mutant("kube/controller.py", "for obj in (delta.old, delta.new):", "for obj in (delta.new,):")
async def test_a_child_that_changed_hands_or_is_gone_concerns_its_old_owner_too() -> None:
    parents, children = Store[ConfigMap](), Store[ConfigMap]()
    seen: list[str] = []

    async def reconcile(key: Key) -> Result:
        seen.append(key.name)
        return Result()

    def owner(name: str) -> OwnerReference:
        return OwnerReference("v1", "ConfigMap", name, name, controller=True)

    controller = Controller("test", reconcile, [primary(parents), owned(children, CONFIG_MAPS)])
    async with running(controller):
        children.upsert(a_config_map("child", 1, owner("first")))
        await eventually(lambda: seen == ["first"])
        children.upsert(a_config_map("child", 2, owner("second")))
        await eventually(lambda: sorted(seen) == ["first", "first", "second"])
        children.remove(Key("ns", "child"))
        await eventually(lambda: seen[-1] == "second" and len(seen) == 4)


APPS = Resource("apps", "v1", "Deployment", "deployments", ConfigMap)
OWNERS: dict[str, tuple[Resource[ConfigMap], OwnerReference | None, list[Key]]] = {
    "the controller, whatever its version": (
        APPS,
        OwnerReference("apps/v2", "Deployment", "d", "u", controller=True),
        [Key("ns", "d")],
    ),
    "not an owner that does not control": (APPS, OwnerReference("apps/v1", "Deployment", "d", "u"), []),
    "not another kind": (APPS, OwnerReference("apps/v1", "ReplicaSet", "d", "u", controller=True), []),
    "not another group": (APPS, OwnerReference("other/v1", "Deployment", "d", "u", controller=True), []),
    "nobody": (APPS, None, []),
}


@pytest.mark.parametrize(("kind", "owner", "want"), OWNERS.values(), ids=OWNERS)
def test_children_are_mapped_to(kind: Resource[ConfigMap], owner: OwnerReference | None, want: list[Key]) -> None:
    assert list(owned(Store[ConfigMap](), kind).keys(a_config_map("c", 1, owner))) == want


def test_a_cluster_scoped_owner_has_a_key_without_namespace() -> None:
    owner = OwnerReference("v1", "Namespace", "ns", "u", controller=True)
    assert list(owned(Store[ConfigMap](), NAMESPACES).keys(a_config_map("c", 1, owner))) == [Key("", "ns")]


async def test_any_relation_can_be_mapped() -> None:
    store = Store[ConfigMap]()
    source: Source[ConfigMap] = mapped(store, lambda obj: [Key("", obj.metadata.namespace)])
    seen: list[tuple[Key, int]] = []
    source.feed(lambda key, urgent: seen.append((key, urgent)))
    store.upsert(a_config_map("a", 1))
    assert seen == [(Key("", "ns"), True)]


def test_an_objects_own_change_is_urgent_only_where_somebody_awaits_it() -> None:
    store = Store[ConfigMap]()
    seen: list[int] = []
    for source in (primary(store), primary(store, urgent=lambda obj: obj.metadata.name == "a")):
        source.feed(lambda _, urgent: seen.append(urgent))
    store.upsert(a_config_map("a", 1))
    store.upsert(a_config_map("b", 1))
    assert seen == [False, True, False, False]


@mutant("kube/controller.py", "if not permitted():", "if False:")
@mutant("kube/controller.py", "                self.queue.add(key, urgent=True)\n", "")
@mutant("kube/controller.py", "                await self._doubt()\n                continue", "                return")
async def test_while_leadership_is_in_doubt_no_reconcile_begins_and_no_key_is_lost() -> None:
    store = Store[ConfigMap]()
    for name in "abc":
        store.upsert(a_config_map(name, 1))
    sure, asked, done = False, 0, set[str]()

    def permitted() -> bool:
        nonlocal asked
        asked += 1
        return sure

    async def reconcile(key: Key) -> Result:
        done.add(key.name)
        return Result()

    controller = Controller("test", reconcile, [primary(store)], workers=2)
    task = asyncio.create_task(controller.run(permitted))
    await eventually(lambda: asked >= 4, within=20, what="both workers ask again")
    assert done == set()
    assert controller.running
    sure = True
    await eventually(lambda: done == {"a", "b", "c"}, within=20)
    controller.stop()
    await task


async def test_a_controller_that_stops_while_leadership_is_in_doubt_ends_at_once() -> None:
    store = Store[ConfigMap]()
    store.upsert(a_config_map("a", 1))
    asked = asyncio.Event()

    def permitted() -> bool:
        asked.set()
        return False

    async def reconcile(_: Key) -> Result:
        raise AssertionError("not permitted")

    controller = Controller("test", reconcile, [primary(store)])
    task = asyncio.create_task(controller.run(permitted))
    await asked.wait()
    controller.stop()
    await asyncio.wait_for(task, 20)
    assert not controller.running


@mutant("kube/controller.py", "except (Exception, asyncio.CancelledError):", "except Exception:")
async def test_a_reconcile_that_awaits_a_cancelled_task_ends_no_worker() -> None:
    store = Store[ConfigMap]()
    runs = 0

    async def reconcile(_: Key) -> Result:
        nonlocal runs
        runs += 1
        if runs <= 2:
            awaited = asyncio.ensure_future(asyncio.Event().wait())
            awaited.cancel()
            await awaited
        return Result()

    controller = Controller("test", reconcile, [primary(store)], workers=1)
    with capture_logs() as logs:
        async with running(controller):
            store.upsert(a_config_map("a", 1))
            await eventually(lambda: runs == 3, within=20)
    assert sum(bool(line.get("exc_info")) for line in logs) == 2
