"""Watches: what a client sees of each change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.local.apiserver.builtin import add_builtin_kinds
from gpu_runtime.local.apiserver.journal import Journal
from gpu_runtime.local.apiserver.kinds import Kind, Registry
from gpu_runtime.local.apiserver.selectors import Matcher, matcher
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.apiserver.watching import Watch

PATIENCE = 30


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    found = Store(Journal(tmp_path))
    yield found
    await found.settled()
    found.close()


@pytest.fixture(scope="module")
def kind() -> Kind:
    registry = Registry()
    add_builtin_kinds(registry)
    found = registry.find("", "v1", "configmaps")
    assert found is not None
    return found


def watch(store: Store, kind: Kind, matches: Matcher | None = None, namespace: str = "") -> Watch:
    def bookmark(version: int, initial_end: bool) -> dict[str, Any]:
        return {"version": version, "end": initial_end}

    return Watch(store, kind, namespace, matches, kind.wire, bookmark)


async def events(lines: AsyncIterator[bytes], count: int) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        async for batch in lines:
            parsed = [json.loads(line) for line in batch.splitlines()]
            found += [(one["type"], one["object"]) for one in parsed]
            if len(found) >= count:
                break
    return found


async def put(store: Store, name: str, *, deleted: bool = False, **labels: str) -> int:
    write = store.write("configmaps", f"ns/{name}", {"metadata": {"name": name, "labels": labels}}, deleted=deleted)
    await write.committed
    return write.version


async def test_a_watch_from_a_version_sees_every_later_change_once_and_in_order(store: Store, kind: Kind) -> None:
    first = await put(store, "a")
    await put(store, "a", x="1")
    await put(store, "b")
    await put(store, "a", deleted=True)
    lines = watch(store, kind).lines(first, bookmarks=False, initial_end=False, seconds=60)
    found = await events(lines, 3)
    assert [(kind, obj["metadata"]["name"]) for kind, obj in found] == [
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


async def test_without_a_version_it_begins_with_what_there_is(store: Store, kind: Kind) -> None:
    await put(store, "a")
    lines = watch(store, kind).lines(None, bookmarks=True, initial_end=True, seconds=60)
    found = await events(lines, 2)
    assert [kind for kind, _ in found] == ["ADDED", "BOOKMARK"]
    assert found[1][1]["end"] is True


async def test_entering_and_leaving_a_selection_are_additions_and_removals(store: Store, kind: Kind) -> None:
    start = await put(store, "a", on="no")
    await put(store, "a", on="yes")
    await put(store, "a", on="yes", more="1")
    last = await put(store, "a", on="no")
    selected = watch(store, kind, matcher("on=yes", "", ()))
    found = await events(selected.lines(start, bookmarks=False, initial_end=False, seconds=60), 3)
    assert [kind for kind, _ in found] == ["ADDED", "MODIFIED", "DELETED"]
    gone = found[-1][1]["metadata"]
    assert (gone["labels"]["on"], gone["resourceVersion"]) == ("yes", str(last))


async def test_another_namespace_is_not_seen(store: Store, kind: Kind) -> None:
    start = await put(store, "a")
    await store.write("configmaps", "other/b", {"metadata": {"name": "b"}}).committed
    await put(store, "c")
    found = await events(
        watch(store, kind, namespace="ns").lines(start, bookmarks=False, initial_end=False, seconds=60), 1
    )
    assert [obj["metadata"]["name"] for _, obj in found] == ["c"]


async def test_a_watch_that_fell_behind_what_is_kept_ends_with_410(store: Store, kind: Kind) -> None:
    start = await put(store, "a")
    await put(store, "b")
    store.compact(await put(store, "c"))
    found = await events(watch(store, kind).lines(start, bookmarks=False, initial_end=False, seconds=60), 1)
    assert [(kind, obj["code"], obj["reason"]) for kind, obj in found] == [("ERROR", 410, "Expired")]


async def test_compaction_of_other_kinds_does_not_end_a_quiet_watch(store: Store, kind: Kind) -> None:
    start = await put(store, "a")
    lines = watch(store, kind).lines(start, bookmarks=False, initial_end=False, seconds=60)
    waiting = asyncio.ensure_future(events(lines, 1))
    await asyncio.sleep(0)
    write = store.write("secrets", "ns/s", {"metadata": {"name": "s"}})
    await write.committed
    store.compact(write.version)
    await put(store, "b")
    assert [kind for kind, _ in await waiting] == ["ADDED"]


async def test_a_stopping_server_ends_its_watches(store: Store, kind: Kind) -> None:
    waiting = asyncio.ensure_future(
        events(watch(store, kind).lines(1, bookmarks=False, initial_end=False, seconds=60), 1)
    )
    await asyncio.sleep(0)
    store.stop_watches()
    assert await waiting == []
