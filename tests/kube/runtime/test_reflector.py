"""Rules of a cache, on a real API server with faults in between."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from equipment.fault_proxy import FaultProxy, Match, events, expired, lists, watches
from equipment.mutation import mutant
from equipment.waiting import eventually
from equipment.world import Follow, MakeConfigMap, Widget, Widgets
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import Client, Query, Reflector, ServerError, Store
from gpu_runtime.kube.backoff import Exponential, JitteredBackoff
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap

QUICK = {"backoff": JitteredBackoff(Exponential(0.01, 0.05))}
SOON = 20.0


def names(reflector: Reflector[ConfigMap]) -> list[str]:
    return sorted(obj.metadata.name for obj in reflector.store)


def text_of(reflector: Reflector[ConfigMap], name: str) -> str | None:
    return next((obj.data.get("text") for obj in reflector.store if obj.metadata.name == name), None)


def watch_from(version: str) -> Match:
    return watches("configmaps").where(lambda call: call.query["resourceVersion"] == version, f"from {version}")


async def test_a_cache_follows_creates_changes_and_deletes(
    client: Client, following: Follow, config_map: MakeConfigMap, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, config_map("a", text="1"))
    async with following() as reflector:
        assert names(reflector) == ["a"]
        await client.create(CONFIG_MAPS, config_map("b"))
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"text": "2"}})
        await eventually(lambda: names(reflector) == ["a", "b"] and text_of(reflector, "a") == "2")
        await client.delete(CONFIG_MAPS, Key(namespace, "a"))
        await eventually(lambda: names(reflector) == ["b"])


@pytest.mark.parametrize("form", ["as an HTTP status", "as an ERROR event inside a 200 stream"])
@mutant(
    "kube/reflector.py",
    '                version = ""\n                await self._pause(None)',
    "                await self._pause(None)",
)
async def test_410_lists_again_and_a_delete_missed_meanwhile_is_seen(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap, namespace: str, form: str
) -> None:
    for name in ("kept", "missed"):
        await client.create(CONFIG_MAPS, config_map(name))
    async with following(**QUICK) as reflector:
        stream = await fault_proxy.stream(watches("configmaps"))
        too_old = watch_from(str(reflector.store.version))
        fault_proxy.on(watches("configmaps")).drop_events(events("DELETED", name="missed"))
        await client.delete(CONFIG_MAPS, Key(namespace, "missed"))
        if form == "as an HTTP status":
            fault_proxy.on(too_old).answer(410)
            stream.cut()
        else:
            fault_proxy.on(too_old).inject(expired())
        await eventually(lambda: names(reflector) == ["kept"], within=SOON)
    assert fault_proxy.count(lists("configmaps")) == 2


@mutant("kube/reflector.py", 'version = "" if _version_unknown(error) else', "version =")
async def test_a_server_that_has_not_come_as_far_as_the_cache_is_listed_again(
    client: Client,
    proxied: Client,
    fault_proxy: FaultProxy,
    following: Follow,
    config_map: MakeConfigMap,
    namespace: str,
) -> None:
    path, ahead = Query(CONFIG_MAPS, namespace).path, {"resourceVersion": str(10**15)}
    with pytest.raises(ServerError, match="Too large resource version"):
        await proxied.request("GET", path, parameters=ahead, subject="read the future")
    too_large = fault_proxy.calls(lists("configmaps"))[-1]
    async with following(**QUICK) as reflector:
        stream = await fault_proxy.stream(watches("configmaps"))
        await client.create(CONFIG_MAPS, config_map("a"))
        await eventually(lambda: names(reflector) == ["a"])
        # Restored from a backup: it does not know the version that the cache goes on from.
        fault_proxy.on(watch_from(str(reflector.store.version))).answer(too_large.status or 0, too_large.response)
        mark = fault_proxy.mark()
        stream.cut()
        await client.create(CONFIG_MAPS, config_map("b"))
        await eventually(lambda: names(reflector) == ["a", "b"], within=SOON)
        assert fault_proxy.count(lists("configmaps"), since=mark) == 1


@mutant("kube/client.py", "            opened()\n", "")
async def test_a_broken_watch_of_a_kind_that_nobody_changes_is_no_problem_once_it_is_open_again(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    await client.create(CONFIG_MAPS, config_map("quiet"))
    async with following(**QUICK) as reflector:
        stream = await fault_proxy.stream(watches("configmaps"))
        trouble = fault_proxy.on(watches("configmaps")).answer(503)
        stream.cut()
        await trouble.happened(2)
        assert reflector.problem is not None
        trouble.remove()
        await eventually(lambda: reflector.problem is None, within=SOON)


async def test_410_in_the_middle_of_a_paged_list_asks_for_all_at_once(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    for name in "abcde":
        await client.create(CONFIG_MAPS, config_map(name))
    second_page = lists("configmaps").where(lambda call: "continue" in call.query, "of a later page")
    fault_proxy.on(second_page).answer(410)
    async with following(page_size=2) as reflector:
        assert names(reflector) == list("abcde")


async def test_a_long_list_is_read_page_by_page(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    for name in "abcde":
        await client.create(CONFIG_MAPS, config_map(name))
    async with following(page_size=2) as reflector:
        assert names(reflector) == list("abcde")
    assert fault_proxy.count(lists("configmaps")) == 3


@mutant("kube/transport.py", "sock_read=silence", "sock_read=None")
async def test_a_watch_silent_past_its_timeout_is_torn_down(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    frozen = fault_proxy.on(watches("configmaps"), times=1).freeze()
    async with following(watch_seconds=0.2, silence_margin=0.2, **QUICK) as reflector:
        await frozen.happened()
        await client.create(CONFIG_MAPS, config_map("unheard"))
        await eventually(lambda: names(reflector) == ["unheard"], within=SOON)
    assert fault_proxy.count(lists("configmaps")) == 1


@mutant("kube/client.py", 'raise Unreadable(f"watch {query}:', 'raise ValueError(f"watch {query}:')
@mutant("kube/client.py", 'raise Unreadable(f"list {query}:', 'raise ValueError(f"list {query}:')
async def test_what_is_no_list_and_no_event_is_reported_and_outlived(
    client: Client, proxied: Client, fault_proxy: FaultProxy, config_map: MakeConfigMap, namespace: str
) -> None:
    page_of_a_gateway = fault_proxy.on(lists("configmaps"), times=1).answer(200, "sign in")
    no_event = fault_proxy.on(watches("configmaps"), times=1).inject({"neither": "type nor object"})
    reflector = Reflector(proxied, Query(CONFIG_MAPS, namespace), Store[ConfigMap](), backoff=QUICK["backoff"])
    with capture_logs() as logs:
        task = asyncio.create_task(reflector.run())
        await page_of_a_gateway.happened()
        await no_event.happened()
        await client.create(CONFIG_MAPS, config_map("a"))
        await eventually(lambda: task.done() or "a" in names(reflector), within=SOON)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "a" in names(reflector)
    said = [line["problem"] for line in logs]
    assert any("not a list" in problem for problem in said)
    assert any("not an event" in problem for problem in said)


async def test_a_watch_that_is_cut_goes_on_where_it_was(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    async with following(**QUICK) as reflector:
        for name in "abc":
            (await fault_proxy.stream(watches("configmaps"))).cut()
            await client.create(CONFIG_MAPS, config_map(name))
            await eventually(lambda: name in names(reflector))  # noqa: B023
    assert fault_proxy.count(lists("configmaps")) == 1


@mutant("kube/reflector.py", "                self._backoff.reset()\n", "")
async def test_watch_errors_back_off_and_an_event_resets_that(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    backoff = JitteredBackoff(Exponential(0.001, 0.01))
    trouble = fault_proxy.on(watches("configmaps"), times=5).answer(500)
    with capture_logs() as logs:
        async with following(backoff=backoff) as reflector:
            await trouble.happened(5)
            await fault_proxy.stream(watches("configmaps"))
            assert backoff.failures == 5
            await client.create(CONFIG_MAPS, config_map("a"))
            await eventually(lambda: names(reflector) == ["a"])
            assert backoff.failures == 0
    warnings = [line for line in logs if line["event"] == "cannot follow the server; retrying"]
    assert len(warnings) == 1, "the same trouble is said once"


@mutant("kube/reflector.py", "max(self._backoff.next(), retry_after or 0.0)", "self._backoff.next()")
async def test_retry_after_is_honoured_by_a_cache(fault_proxy: FaultProxy, following: Follow) -> None:
    fault_proxy.on(lists("configmaps"), times=1).answer(429, headers={"Retry-After": "1"})
    loop = asyncio.get_running_loop()
    began = loop.time()
    with capture_logs():
        async with following(**QUICK):
            assert loop.time() - began >= 1.0


@mutant("kube/reflector.py", "if not received and loop.time() - began < MINIMUM_WATCH_SECONDS:", "if False:")
async def test_a_server_that_ends_watches_at_once_is_not_asked_in_a_tight_loop(
    fault_proxy: FaultProxy, following: Follow
) -> None:
    fault_proxy.on(watches("configmaps")).end()
    backoff = JitteredBackoff(Exponential(0.001, 0.01))
    async with following(backoff=backoff):
        await fault_proxy.seen(watches("configmaps"), times=5)
        assert backoff.failures >= 4


@mutant("kube/store.py", "if old is not None and not _supersedes(obj, old):", "if False:")
async def test_events_that_come_twice_change_nothing(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap
) -> None:
    fault_proxy.on(watches("configmaps")).repeat_events(events(), copies=3)
    async with following() as reflector:
        changes: list[str] = []
        reflector.store.subscribe(lambda delta: changes.append(delta.object.metadata.name))
        for name in "ab":
            await client.create(CONFIG_MAPS, config_map(name))
        await eventually(lambda: names(reflector) == ["a", "b"])
        assert changes == ["a", "b"]


@mutant("kube/decoding.py", "page.skipped.append(_skipped(resource, raw, error))", "raise")
async def test_an_unreadable_object_in_a_list_is_reported_and_skipped_and_stops_nothing(
    client: Client, fault_proxy: FaultProxy, following: Follow, config_map: MakeConfigMap, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, config_map("good"))
    bad = {"metadata": {"name": "newer", "namespace": namespace, "resourceVersion": "1"}, "data": ["a list"]}
    fault_proxy.on(lists("configmaps")).rewrite_list(lambda items: [bad, *items])
    with capture_logs() as logs:
        async with following() as reflector:
            assert names(reflector) == ["good"]
            assert list(reflector.skipped) == [Key(namespace, "newer")]
            await client.create(CONFIG_MAPS, config_map("later"))
            await eventually(lambda: names(reflector) == ["good", "later"])
    said = [line["problem"] for line in logs if line["event"] == "unreadable object skipped"]
    assert said == [
        f"ConfigMap {namespace}/newer: cannot be read and is left alone: data: Expected `object`, got `array`"
    ]


class Text(msgspec.Struct, frozen=True):
    text: str


class StrictConfigMap(msgspec.Struct, frozen=True):
    """A type that can read a ConfigMap only while it has a text."""

    metadata: ObjectMeta
    data: Text


@mutant(
    "kube/reflector.py",
    "            self.store.remove(event.key)\n            self._skip(event.skipped)",
    "            self._skip(event.skipped)",
)
async def test_an_object_that_becomes_unreadable_leaves_the_cache_and_comes_back_when_it_can_be_read(
    client: Client, following: Follow, config_map: MakeConfigMap, namespace: str
) -> None:
    key = Key(namespace, "a")
    strict = CONFIG_MAPS.view(StrictConfigMap)
    await client.create(CONFIG_MAPS, config_map("a", text="short"))
    reflector = Reflector(client, Query(strict, namespace, fields="metadata.name=a"), Store[StrictConfigMap]())
    task = asyncio.create_task(reflector.run())
    try:
        with capture_logs():
            await eventually(lambda: reflector.store.get(key))
            await client.patch(CONFIG_MAPS, key, {"data": {"text": None}})
            await eventually(lambda: reflector.store.get(key) is None and key in reflector.skipped)
            await client.patch(CONFIG_MAPS, key, {"data": {"text": "again"}})
            await eventually(lambda: reflector.store.get(key) and not reflector.skipped)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_kind_that_is_not_served_is_named_and_found_as_soon_as_it_is_installed(
    client: Client, widgets: Widgets
) -> None:
    reflector = Reflector(
        client, Query(widgets.resource), Store[Widget](), backoff=JitteredBackoff(Exponential(0.01, 0.1))
    )
    task = asyncio.create_task(reflector.run())
    try:
        with capture_logs():
            await eventually(lambda: "is not served by" in (reflector.problem or ""))
            assert reflector.problem == (
                f"{widgets.resource.kind} ({widgets.resource.api_version}) is not served by {client.config.server}: "
                "install its CustomResourceDefinition"
            )
            await widgets.install()
            await eventually(reflector.synced.is_set)
            # The first watch of a new kind may be refused: its storage is there a moment later than its list.
            await eventually(lambda: reflector.problem is None)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
