"""A whole process: caches first, then leadership, then work; and the other way round at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import aiohttp
import pytest
from structlog.testing import capture_logs

from equipment.fault_proxy import FaultProxy, creates, lists, updates, watches, writes
from equipment.mutation import mutant
from equipment.waiting import eventually
from equipment.world import MakeConfigMap
from gpu_runtime.api.meta.object import Key, ObjectMeta, controller_reference
from gpu_runtime.kube import (
    Children,
    Client,
    Election,
    Expectations,
    Manager,
    NotFound,
    Query,
    Recorder,
    Result,
    Terms,
    by_owner,
    owned,
    primary,
)
from gpu_runtime.kube.builtin import CONFIG_MAPS, NAMESPACES, ConfigMap
from gpu_runtime.kube.events import EVENTS
from gpu_runtime.kube.health import Health, serve
from gpu_runtime.kube.lease import LEASES

# Renewed often, yet a busy machine does not take the lease from a live leader.
QUICK = Terms(duration=8.0, give_up=6.0, retry=0.1)


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[asyncio.Task[None]]:
    """The manager at work inside the block, and stopped in order at its end."""
    stop = asyncio.Event()
    task = asyncio.create_task(manager.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await task


def parents(namespace: str) -> Query[ConfigMap]:
    return Query(CONFIG_MAPS, namespace, labels="role=parent")


def children_of(namespace: str) -> Query[ConfigMap]:
    return Query(CONFIG_MAPS, namespace, labels="role=child")


def a_parent(namespace: str, name: str = "parent", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"role": "parent"}), data=data)


def a_child(parent: ConfigMap) -> ConfigMap:
    owner = controller_reference("v1", "ConfigMap", parent.metadata)
    meta = ObjectMeta(
        name=f"{parent.metadata.name}-child",
        namespace=parent.metadata.namespace,
        labels={"role": "child"},
        ownerReferences=[owner],
    )
    return ConfigMap(metadata=meta, data=parent.data)


def copying(manager: Manager, namespace: str, reconciled: Callable[[Key], None] = lambda key: None) -> Manager:
    """Each parent gets a child with its data."""
    cached, live = manager.cache(parents(namespace)), manager.cache(children_of(namespace))
    children = Children(manager.client)

    async def reconcile(key: Key) -> Result:
        reconciled(key)
        parent = cached.get(key)
        if parent is not None and parent.metadata.deletionTimestamp is None:
            desired = a_child(parent)
            await children.ensure(CONFIG_MAPS, desired, live.get(desired.metadata.key))
        return Result()

    manager.controller("copy", reconcile, [primary(cached), owned(live, CONFIG_MAPS)])
    return manager


@mutant("kube/manager.py", "if not await _unless(stop, self._synced()):", "if False:")
async def test_workers_start_after_all_caches_have_synced(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, a_parent(namespace))
    late = fault_proxy.on(lists("configmaps").where(lambda call: call.query["labelSelector"] == "role=child")).hold()
    reconciled: list[Key] = []
    async with running(copying(Manager(proxied), namespace, reconciled.append)):
        await late.arrived()
        await fault_proxy.stream(watches("configmaps"))
        assert reconciled == []
        late.release()
        await eventually(lambda: reconciled)


async def test_a_restart_with_nothing_to_do_writes_nothing(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    for number in range(20):
        await client.create(CONFIG_MAPS, a_parent(namespace, f"p{number}", text=str(number)))
    async with running(copying(Manager(proxied), namespace)):
        await fault_proxy.seen(creates("configmaps"), times=20)
    mark = fault_proxy.mark()
    reconciled: list[Key] = []
    manager = copying(Manager(proxied), namespace, reconciled.append)
    async with running(manager):
        await eventually(lambda: len(reconciled) >= 20)
        for _ in range(5):
            before = len(reconciled)
            manager._controllers[0].resync()
            await eventually(lambda: len(reconciled) >= before + 20)  # noqa: B023
    assert fault_proxy.count(writes(), since=mark) == 0


async def test_a_dropped_response_after_a_successful_write_converges_without_a_second_object(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    fault_proxy.on(creates("configmaps"), times=1).drop_response()
    with capture_logs():
        async with running(copying(Manager(proxied), namespace)):
            await client.create(CONFIG_MAPS, a_parent(namespace, text="1"))
            child = Key(namespace, "parent-child")
            await eventually(lambda: _exists(client, child))
            await client.patch(CONFIG_MAPS, Key(namespace, "parent"), {"data": {"text": "2"}})
            await eventually(lambda: _text(client, child, "2"))
    assert len((await client.list(children_of(namespace))).items) == 1


@mutant(
    "kube/controller.py", "at_least=(error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0", "at_least=0.0"
)
async def test_429_with_retry_after_is_waited_for(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    loop = asyncio.get_running_loop()
    refused = fault_proxy.on(creates("configmaps"), times=1).answer(429, headers={"Retry-After": "1"})
    with capture_logs():
        async with running(copying(Manager(proxied), namespace)):
            await client.create(CONFIG_MAPS, a_parent(namespace))
            await refused.happened()
            began = loop.time()
            await fault_proxy.seen(creates("configmaps"), times=2)
            assert loop.time() - began >= 0.9
            await eventually(lambda: _exists(client, Key(namespace, "parent-child")))


@mutant("kube/expectations.py", "self._store.version >= awaited", "True")
async def test_a_child_with_a_generated_name_is_created_once_although_the_cache_lags(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    manager = Manager(proxied)
    cached, live = manager.cache(parents(namespace)), manager.cache(children_of(namespace))
    live.index("owner", by_owner)
    expectations = Expectations(live)
    reconciled: list[Key] = []

    async def reconcile(key: Key) -> Result:
        reconciled.append(key)
        parent = cached.get(key)
        if parent is not None and expectations.met(key) and not live.find("owner", parent.metadata.uid):
            meta = ObjectMeta(
                generateName="worker-",
                namespace=namespace,
                labels={"role": "child"},
                ownerReferences=[controller_reference("v1", "ConfigMap", parent.metadata)],
            )
            made = await proxied.create(CONFIG_MAPS, ConfigMap(metadata=meta))
            expectations.expect(key, made)
        return Result()

    controller = manager.controller("generate", reconcile, [primary(cached), owned(live, CONFIG_MAPS)])
    behind = fault_proxy.on(
        watches("configmaps").where(lambda call: call.query["labelSelector"] == "role=child")
    ).freeze()
    async with running(manager):
        await client.create(CONFIG_MAPS, a_parent(namespace))
        await fault_proxy.seen(creates("configmaps"))
        for _ in range(5):  # each of these looks at a cache that does not show the child
            before = len(reconciled)
            controller.resync()
            await eventually(lambda: len(reconciled) > before)  # noqa: B023
        behind.thaw()
        await eventually(lambda: len(live) == 1)
        await eventually(lambda: expectations.met(Key(namespace, "parent")))
    assert len((await client.list(children_of(namespace))).items) == 1


def an_election(client: Client, namespace: str, identity: str) -> Election:
    return Election(client, Key(namespace, "leader"), identity, terms=QUICK)


@mutant("kube/manager.py", "self._election is not None and not await _unless(stop, self._election.acquire())", "False")
async def test_a_standby_keeps_its_caches_warm_and_does_nothing(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    leader = copying(Manager(client, election=an_election(client, namespace, "first")), namespace)
    reconciled: list[Key] = []
    standby = copying(
        Manager(proxied, election=an_election(proxied, namespace, "second")), namespace, reconciled.append
    )
    async with running(leader):
        await eventually(leader.leading.is_set)
        async with running(standby):
            await eventually(lambda: not any(standby.checks().values()))
            await client.create(CONFIG_MAPS, a_parent(namespace))
            cache = standby.cache(children_of(namespace))
            await eventually(lambda: cache.get(Key(namespace, "parent-child")))
            assert not standby.leading.is_set()
            assert reconciled == []
    assert fault_proxy.count(writes()) == 0


@mutant("kube/manager.py", "            await self._election.release()\n", "            pass\n")
async def test_a_leader_that_stops_hands_the_lease_back(client: Client, namespace: str) -> None:
    leader = Manager(client, election=an_election(client, namespace, "first"))
    async with running(leader):
        await eventually(leader.leading.is_set)
    lease = await client.get(LEASES, Key(namespace, "leader"))
    assert lease.spec.holderIdentity == ""


async def test_a_leader_whose_renewal_was_done_but_never_answered_stays_leader(
    proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    manager = Manager(proxied, election=an_election(proxied, namespace, "only"))
    with capture_logs() as logs:
        async with running(manager):
            await eventually(manager.leading.is_set)
            lost = fault_proxy.on(updates("leases"), times=1).drop_response()
            await lost.happened()
            mark = fault_proxy.mark()
            await fault_proxy.seen(updates("leases"), times=5, since=mark)
            assert manager.leading.is_set()
    assert not any(line["event"] == "no longer leading" for line in logs)


async def test_a_leader_that_cannot_renew_stops_working_before_its_lease_is_up(
    proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    manager = Manager(proxied, election=an_election(proxied, namespace, "only"))
    with capture_logs():
        async with running(manager):
            await eventually(manager.leading.is_set)
            away = fault_proxy.on(writes("leases")).answer(503)
            await eventually(lambda: not manager.leading.is_set())
            away.remove()
            await eventually(manager.leading.is_set)


@mutant("kube/manager.py", "await asyncio.wait(work, timeout=self._drain_seconds)", "pass")
async def test_stopping_lets_a_running_reconcile_end(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    held = fault_proxy.on(creates("configmaps")).hold()
    stop, manager = asyncio.Event(), copying(Manager(proxied), namespace)
    task = asyncio.create_task(manager.run(stop))
    await client.create(CONFIG_MAPS, a_parent(namespace))
    await held.arrived()
    stop.set()
    await eventually(lambda: not manager.leading.is_set())
    held.release()
    await task
    assert await _exists(client, Key(namespace, "parent-child"))
    # The child alone proves nothing: a request that was cancelled may still be done by the server.
    outcome = {"controller": "copy", "outcome": "done"}
    assert manager.metrics.registry.get_sample_value("controller_reconciles_total", outcome) == 1


async def test_health_is_about_us_and_readiness_names_what_is_missing(
    client: Client, proxied: Client, fault_proxy: FaultProxy, namespace: str
) -> None:
    trouble = fault_proxy.on(lists("configmaps")).answer(403, reason="Forbidden")
    manager, health = copying(Manager(proxied), namespace), Health()
    health.add(manager.checks, manager.metrics.registry)
    with capture_logs():
        async with serve(health, "127.0.0.1", 0) as port, running(manager), aiohttp.ClientSession() as http:
            await trouble.happened(2)
            url = f"http://127.0.0.1:{port}"
            async with http.get(f"{url}/healthz") as alive, http.get(f"{url}/readyz") as ready:
                assert alive.status == 200
                assert ready.status == 503
                problems = (await ready.json())["problems"]
                assert set(problems) == {
                    f"cache of configmaps in {namespace} with role={role}" for role in ("parent", "child")
                }
            trouble.remove()

            async def is_ready() -> bool:
                async with http.get(f"{url}/readyz") as answer:
                    return answer.status == 200

            await eventually(is_ready)
            await client.create(CONFIG_MAPS, a_parent(namespace))
            await fault_proxy.seen(creates("configmaps"))

            async def counted() -> bool:
                async with http.get(f"{url}/metrics") as answer:
                    return 'controller_reconciles_total{controller="copy",outcome="done"}' in await answer.text()

            await eventually(counted)


async def test_events_are_counted_up_and_floods_are_cut(
    proxied: Client, fault_proxy: FaultProxy, config_map: MakeConfigMap, namespace: str
) -> None:
    about = await proxied.create(CONFIG_MAPS, config_map("subject"))
    recorder = Recorder(proxied, "test-controller", "instance-1")
    for _ in range(5):
        recorder.event(CONFIG_MAPS, about, "Pulled", "the same thing again")
    for number in range(30):
        recorder.event(CONFIG_MAPS, about, "Failed", f"attempt {number}", type="Warning")
    mark = fault_proxy.mark()
    await recorder.flush()
    seen = (await proxied.list(Query(EVENTS, namespace))).items
    by_reason = {reason: [event for event in seen if event.reason == reason] for reason in ("Pulled", "Failed")}
    assert [(event.count, event.type, event.involvedObject.uid) for event in by_reason["Pulled"]] == [
        (5, "Normal", about.metadata.uid)
    ]
    assert len(by_reason["Failed"]) == 11
    combined = max(by_reason["Failed"], key=lambda event: event.count)
    assert (combined.count, combined.message) == (20, "(combined from similar events): attempt 29")
    assert fault_proxy.count(creates("events"), since=mark) == 12


@mutant(
    "kube/events.py",
    "except NotFound:  # events expire after an hour; this one begins again\n                pass",
    "except NotFound:\n                return",
)
async def test_an_event_that_expired_is_made_again_when_it_happens_again(
    client: Client, config_map: MakeConfigMap, namespace: str
) -> None:
    about = await client.create(CONFIG_MAPS, config_map("subject"))
    recorder = Recorder(client, "test-controller", "instance-1")
    recorder.event(CONFIG_MAPS, about, "Pulled", "the same thing again")
    await recorder.flush()
    [first] = (await client.list(Query(EVENTS, namespace))).items
    await client.delete(EVENTS, first.metadata.key)  # as the server does after an hour
    recorder.event(CONFIG_MAPS, about, "Pulled", "the same thing again")
    await recorder.flush()
    [again] = (await client.list(Query(EVENTS, namespace))).items
    assert (again.metadata.name, again.count) == (first.metadata.name, 2)
    assert again.metadata.uid != first.metadata.uid


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_event_that_is_being_written_when_the_process_stops_is_not_lost(
    proxied: Client,
    fault_proxy: FaultProxy,
    config_map: MakeConfigMap,
    namespace: str,
    when: Literal["before", "after"],
) -> None:
    about = await proxied.create(CONFIG_MAPS, config_map("subject"))
    held = fault_proxy.on(creates("events"), times=1).hold(when)
    recorder = Recorder(proxied, "test-controller", "instance-1")
    with capture_logs() as logs:
        async with running(Manager(proxied, recorder=recorder)):
            recorder.event(CONFIG_MAPS, about, "Pulled", "the last word")
            await held.arrived()
    seen = (await proxied.list(Query(EVENTS, namespace))).items
    held.release()
    assert [(event.message, event.count) for event in seen] == [("the last word", 1)]
    assert [line for line in logs if line["event"] == "event not written"] == []


async def test_events_that_cannot_be_written_stop_nothing(
    proxied: Client, fault_proxy: FaultProxy, config_map: MakeConfigMap
) -> None:
    about = await proxied.create(CONFIG_MAPS, config_map("subject"))
    fault_proxy.on(writes("events")).answer(500)
    recorder = Recorder(proxied, "test-controller", "instance-1")
    recorder.event(CONFIG_MAPS, about, "Pulled", "never seen")
    with capture_logs() as logs:
        await recorder.flush()
    assert [line["event"] for line in logs] == ["event not written"]


async def _exists(client: Client, key: Key) -> bool:
    try:
        await client.get(CONFIG_MAPS, key)
    except NotFound:
        return False
    return True


async def _text(client: Client, key: Key, text: str) -> bool:
    return (await client.get(CONFIG_MAPS, key)).data.get("text") == text


async def test_cluster_scoped_kinds_are_cached_too(client: Client) -> None:
    manager = Manager(client)
    cache = manager.cache(Query(NAMESPACES))
    async with running(manager):
        await eventually(lambda: cache.get(Key("", "default")))
