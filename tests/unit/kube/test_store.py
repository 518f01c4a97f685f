from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key, ObjectMeta, OwnerReference
from gpu_runtime.kube.builtin import ConfigMap
from gpu_runtime.kube.expectations import Expectations
from gpu_runtime.kube.store import Delta, Store, by_owner


def a_config_map(name: str, version: int, *, uid: str = "u", owner: str = "", **data: str) -> ConfigMap:
    owners = [OwnerReference("v1", "Namespace", "o", owner, controller=True)] if owner else []
    meta = ObjectMeta(name=name, namespace="ns", uid=uid, resourceVersion=str(version), ownerReferences=owners)
    return ConfigMap(metadata=meta, data=data)


def recorded(store: Store[ConfigMap]) -> list[tuple[str | None, str | None]]:
    seen: list[tuple[str | None, str | None]] = []

    def note(delta: Delta[ConfigMap]) -> None:
        seen.append(
            (
                delta.old.metadata.resourceVersion if delta.old else None,
                delta.new.metadata.resourceVersion if delta.new else None,
            )
        )

    store.subscribe(note)
    return seen


@mutant("kube/store.py", "if old is not None and not _supersedes(obj, old):", "if False:")
def test_an_event_that_comes_twice_or_late_changes_nothing() -> None:
    store = Store[ConfigMap]()
    seen = recorded(store)
    store.upsert(a_config_map("a", 5, text="new"))
    store.upsert(a_config_map("a", 5, text="new"))
    store.upsert(a_config_map("a", 4, text="old"))
    assert seen == [(None, "5")]
    held = store.get(Key("ns", "a"))
    assert held is not None
    assert held.data == {"text": "new"}


def test_an_object_made_again_under_the_same_name_is_another_one() -> None:
    store = Store[ConfigMap]()
    store.upsert(a_config_map("a", 9, uid="first"))
    store.upsert(a_config_map("a", 3, uid="second"))
    held = store.get(Key("ns", "a"))
    assert held is not None
    assert held.metadata.uid == "second"


@mutant("kube/store.py", "for key in [key for key in self._objects if key not in listed]:", "for key in []:")
def test_a_re_list_diffs_so_that_missed_deletes_are_seen() -> None:
    store = Store[ConfigMap]()
    store.replace([a_config_map("gone", 1), a_config_map("same", 2), a_config_map("changed", 3)], "3")
    seen = recorded(store)
    store.replace([a_config_map("same", 2), a_config_map("changed", 5), a_config_map("fresh", 6)], "6")
    assert sorted(seen, key=str) == sorted([("1", None), ("3", "5"), (None, "6")], key=str)
    assert store.get(Key("ns", "gone")) is None


def test_a_list_from_a_restored_server_is_believed_although_its_versions_are_lower() -> None:
    store = Store[ConfigMap]()
    store.replace([a_config_map("a", 90, text="later")], "90")
    store.replace([a_config_map("a", 40, text="restored")], "40")
    held = store.get(Key("ns", "a"))
    assert held is not None
    assert held.data == {"text": "restored"}
    assert store.version == 40


@mutant("kube/store.py", "max(self.version, version_number(resource_version))", "version_number(resource_version)")
def test_an_event_that_comes_late_does_not_take_the_cache_back() -> None:
    store = Store[ConfigMap]()
    expectations = Expectations(store)
    expectations.expect(Key("ns", "owner"), a_config_map("generated-x7", 12))
    store.saw("12")
    store.saw("11")
    assert store.version == 12
    assert expectations.met(Key("ns", "owner")), "a child that was seen would be awaited again"


def test_indexes_follow_every_change() -> None:
    store = Store[ConfigMap]()
    store.index("owner", by_owner)
    store.upsert(a_config_map("a", 1, owner="x"))
    store.upsert(a_config_map("b", 2, owner="x"))
    assert [obj.metadata.name for obj in store.find("owner", "x")] == ["a", "b"]
    store.upsert(a_config_map("a", 3, owner="y"))
    assert [obj.metadata.name for obj in store.find("owner", "x")] == ["b"]
    store.remove(Key("ns", "b"))
    assert store.find("owner", "x") == []
    assert [obj.metadata.resourceVersion for obj in store.find("owner", "y")] == ["3"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["upsert", "remove"]), st.sampled_from("xyz"))))
def test_an_index_always_equals_a_scan(steps: list[tuple[str, str, str]]) -> None:
    store = Store[ConfigMap]()
    store.index("owner", by_owner)
    for version, (name, what, owner) in enumerate(steps, 1):
        if what == "upsert":
            store.upsert(a_config_map(name, version, owner=owner))
        else:
            store.remove(Key("ns", name))
        for value in "xyz":
            scan = {obj.metadata.name for obj in store if obj.metadata.ownerReferences[0].uid == value}
            assert {obj.metadata.name for obj in store.find("owner", value)} == scan


@mutant("kube/expectations.py", "self._store.version >= awaited", "True")
def test_a_created_child_is_expected_until_the_cache_has_seen_its_version() -> None:
    store = Store[ConfigMap]()
    store.replace([], "10")
    expectations = Expectations(store)
    owner = Key("ns", "owner")
    assert expectations.met(owner)
    expectations.expect(owner, a_config_map("generated-x7", 12))
    assert not expectations.met(owner)
    store.saw("11")
    assert not expectations.met(owner)
    store.saw("12")
    assert expectations.met(owner)


def test_a_child_created_and_deleted_unseen_is_not_awaited_for_ever() -> None:
    store = Store[ConfigMap]()
    expectations = Expectations(store)
    expectations.expect(Key("ns", "owner"), a_config_map("generated-x7", 12))
    store.replace([], "20")
    assert expectations.met(Key("ns", "owner"))


def test_cached_objects_cannot_be_changed() -> None:
    obj: Any = a_config_map("a", 1)
    try:
        obj.data = {}
    except AttributeError:
        return
    raise AssertionError(msgspec.to_builtins(obj))
