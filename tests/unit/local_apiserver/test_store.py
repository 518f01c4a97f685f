"""The store: one sequence, committed reads, the past while it is kept."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_runtime.local.apiserver.errors import StartError
from gpu_runtime.local.apiserver.journal import Journal
from gpu_runtime.local.apiserver.records import Event, Object, Record
from gpu_runtime.local.apiserver.store import Compacted, Store, WriteFailed


def thing(value: int) -> Object:
    return {"metadata": {"name": "a"}, "value": value}


def values(records: list[Record]) -> list[int]:
    return [record.object()["value"] for record in records]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    found = Store(Journal(tmp_path))
    yield found
    await found.settled()
    found.close()


async def test_versions_grow_over_all_kinds(store: Store) -> None:
    writes = [store.write(kind, "ns/a", thing(1)) for kind in ("pods", "nodes", "pods")]
    await asyncio.gather(*(write.committed for write in writes))
    assert [write.version for write in writes] == [2, 3, 4]
    assert store.version == 4


async def test_readers_see_a_write_once_it_is_on_disk_and_writers_at_once(store: Store) -> None:
    write = store.write("pods", "ns/a", thing(1))
    assert store.get("pods", "ns/a") is None
    assert store.current("pods", "ns/a") is not None
    assert [record.key for record in store.all_current("pods")] == ["ns/a"]
    await write.committed
    found = store.get("pods", "ns/a")
    assert found is not None
    assert found.object()["metadata"]["resourceVersion"] == "2"


async def test_a_list_is_in_key_order_and_by_prefix(store: Store) -> None:
    for key in ("b/x", "a/z", "a-b/y", "a/y"):
        await store.write("pods", key, thing(1)).committed
    assert [record.key for record in store.records("pods")] == ["a-b/y", "a/y", "a/z", "b/x"]
    assert [record.key for record in store.records("pods", "a/")] == ["a/y", "a/z"]


async def test_the_past_can_be_listed_until_it_is_compacted(store: Store) -> None:
    await store.write("pods", "ns/a", thing(1)).committed
    await store.write("pods", "ns/a", thing(2)).committed
    await store.write("pods", "ns/b", thing(3)).committed
    await store.write("pods", "ns/a", thing(2), deleted=True).committed
    assert values(store.list_at("pods", "", 2)) == [1]
    assert values(store.list_at("pods", "", 3)) == [2]
    assert values(store.list_at("pods", "", 4)) == [2, 3]
    assert values(store.list_at("pods", "", 5)) == [3]
    store.compact(4)
    assert values(store.list_at("pods", "", 4)) == [2, 3]
    with pytest.raises(Compacted):
        store.list_at("pods", "", 3)


async def test_objects_history_and_sequence_survive_a_restart(tmp_path: Path) -> None:
    store = Store(Journal(tmp_path))
    await store.write("pods", "ns/a", thing(1)).committed
    await store.write("pods", "ns/a", thing(2)).committed
    await store.write("pods", "ns/b", thing(3)).committed
    await store.write("pods", "ns/b", thing(3), deleted=True).committed
    store.compact(5)
    store.close()
    again = Store(Journal(tmp_path))
    assert values(again.records("pods")) == [2]
    assert again.version == 5, "a version that was given out is never given out again"
    assert again.oldest == 5
    await again.write("pods", "ns/c", thing(4)).committed
    assert [event.version for event in again.collection("pods").since(5)] == [6]
    again.close()


async def test_the_history_after_a_restart_knows_what_there_was_before(tmp_path: Path) -> None:
    store = Store(Journal(tmp_path))
    await store.write("pods", "ns/a", thing(1)).committed
    await store.write("pods", "ns/a", thing(2)).committed
    store.close()
    again = Store(Journal(tmp_path))
    first, second = again.collection("pods").since(1)
    assert first.previous is None
    assert second.previous is not None
    assert values([second.previous]) == [1]
    again.close()


async def test_many_writes_are_kept_in_order(store: Store) -> None:
    seen: list[Event] = []
    store.listen(seen.append)
    writes = [store.write("pods", f"ns/{number}", thing(number)) for number in range(200)]
    await asyncio.gather(*(write.committed for write in writes))
    assert [event.version for event in seen] == [write.version for write in writes]


async def test_a_full_disk_fails_the_write_and_what_builds_on_it_and_no_later_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = Store(journal)
    await store.write("pods", "ns/a", thing(1)).committed
    pages = journal._database.execute("PRAGMA page_count").fetchone()[0]
    journal._database.execute(f"PRAGMA max_page_count = {pages}")
    huge = store.write("pods", "ns/a", {"metadata": {}, "value": "x" * 100_000})
    after = store.write("pods", "ns/a", thing(3))
    for write in (huge, after):
        with pytest.raises(WriteFailed):
            await write.committed
    assert values(store.records("pods")) == [1]
    assert store.current("pods", "ns/a") is store.get("pods", "ns/a")
    journal._database.execute("PRAGMA max_page_count = 1000000")
    await store.write("pods", "ns/a", thing(4)).committed
    assert values(store.records("pods")) == [4]
    store.close()


@contextmanager
def full_disk(journal: Journal) -> Iterator[None]:
    """No file of this process may grow beyond what the journal has written by now."""
    size = journal._path.with_name("cluster.db-wal").stat().st_size
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


async def refused(store: Store) -> None:
    """A write that fails, and so tells that everything asked for before it was tried."""
    with pytest.raises(WriteFailed):
        await store.write("pods", "ns/other", thing(0)).committed


async def test_an_object_deleted_before_the_disk_was_full_is_not_back_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = Store(journal)
    for value in (1, 2):
        await store.write("pods", "ns/a", thing(value)).committed
    await store.write("pods", "ns/a", thing(2), deleted=True).committed
    with full_disk(journal):
        store.compact(3)
        await refused(store)
    store.compact(4)
    await store.write("pods", "ns/b", thing(3)).committed
    store.close()
    again = Store(Journal(tmp_path))
    assert [record.key for record in again.records("pods")] == ["ns/b"]
    assert again.oldest == 4
    again.close()


async def test_a_compaction_that_met_a_full_disk_is_done_when_there_is_room(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = Store(journal)
    for value in range(10):
        await store.write("pods", "ns/a", thing(value)).committed
    with full_disk(journal):
        store.compact(store.version)
        await refused(store)
    await store.write("pods", "ns/b", thing(3)).committed
    store.close()
    again = Journal(tmp_path)
    assert [row.key for row in again.rows()] == ["ns/a", "ns/b"]
    again.close()


async def test_a_large_object_rewritten_all_the_time_holds_no_more_memory_than_is_given(tmp_path: Path) -> None:
    store = Store(Journal(tmp_path), keep_bytes=1_000_000)
    for number in range(50):
        await store.write("pods", "ns/a", {"metadata": {}, "value": f"{number:0>100000}"}).committed
    history = store.collection("pods").history
    assert 800_000 < sum(len(event.previous.body) for event in history if event.previous) <= 1_000_000
    assert store.past_bytes <= 1_000_000
    assert len(store.list_at("pods", "", store.version - 5)) == 1
    with pytest.raises(Compacted):
        store.list_at("pods", "", store.version - 15)
    store.close()
    again = Store(Journal(tmp_path), keep_bytes=300_000)
    assert again.past_bytes <= 300_000, "a smaller limit counts from the start"
    assert len(again.records("pods")) == 1
    again.close()


async def test_a_waiter_that_gives_up_takes_no_other_write_with_it(store: Store) -> None:
    given_up, next_one = store.write("pods", "ns/a", thing(1)), store.write("pods", "ns/b", thing(2))
    given_up.committed.cancel()
    await next_one.committed
    assert values(store.records("pods")) == [1, 2]
    assert store.version == next_one.version


async def test_a_follower_that_fails_takes_nobody_with_it(store: Store) -> None:
    def fail(_: Event) -> None:
        raise RuntimeError("follower")

    store.listen(fail)
    await store.write("pods", "ns/a", thing(1)).committed
    assert values(store.records("pods")) == [1]


def test_a_second_server_on_one_folder_is_refused(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    with pytest.raises(StartError, match=r"in use by another API server \(process \d+\)"):
        Journal(tmp_path)
    first.close()
    Journal(tmp_path).close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal._database.execute("PRAGMA user_version = 99")
    journal.close()
    for _ in ("refused", "and nothing is held by who was refused"):
        with pytest.raises(StartError, match=r"written by a newer version \(format 99"):
            Journal(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.db").write_bytes(b"x" * 5000)
    with pytest.raises(StartError, match="not a database"):
        Journal(tmp_path)
