"""Our own writes are known before the watch shows them, and dropped as soon as it does."""

from __future__ import annotations

from equipment.builders import a_unit
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube import OwnWrites, Store

KEY = Key("runtime-instance", "u")


def unit(version: int, name: str = "u") -> GPUUnit:
    return a_unit(name).with_uid("a").at_version(version).object()


def own_writes(*cached: GPUUnit, version: int) -> OwnWrites[GPUUnit]:
    store = Store[GPUUnit]()
    store.replace(cached, str(version))
    return OwnWrites(store)


def seen_version(writes: OwnWrites[GPUUnit]) -> str | None:
    found = writes.get(KEY)
    return found.metadata.resourceVersion if found else None


@mutant("kube/own_writes.py", "            self._written[obj.metadata.key] = obj\n", "            pass\n")
def test_a_write_is_known_before_the_cache_shows_it() -> None:
    writes = own_writes(version=5)
    writes.wrote(unit(7))
    assert seen_version(writes) == "7"
    writes.store.saw("6")
    assert seen_version(writes) == "7"


def test_the_cache_is_believed_once_it_has_come_as_far() -> None:
    writes = own_writes(unit(4), version=5)
    writes.wrote(unit(7))
    writes.store.upsert(unit(7))
    writes.store.upsert(unit(8))
    writes.store.saw("8")
    assert seen_version(writes) == "8"


def test_what_was_deleted_after_our_write_is_gone() -> None:
    writes = own_writes(version=5)
    writes.wrote(unit(7))
    writes.store.saw("9")
    assert seen_version(writes) is None


def test_an_answer_that_the_cache_is_past_already_is_not_kept() -> None:
    writes = own_writes(unit(9), version=9)
    writes.wrote(unit(7))
    assert seen_version(writes) == "9"


@mutant("kube/own_writes.py", "        self._forget_reached()\n", "")
def test_what_nobody_asks_for_again_is_forgotten_too() -> None:
    writes = own_writes(version=5)
    for version in range(6, 100):
        writes.wrote(unit(version, f"u{version}"))
        writes.store.saw(str(version - 1))
    assert list(writes._written) == [Key(KEY.namespace, "u98"), Key(KEY.namespace, "u99")]


def test_a_second_write_of_an_object_is_kept_as_long_as_the_first_of_another() -> None:
    writes = own_writes(version=5)
    writes.wrote(unit(6))
    writes.wrote(unit(7, "other"))
    writes.wrote(unit(8))
    writes.store.saw("7")
    writes.wrote(unit(9, "third"))
    assert list(writes._written) == [KEY, Key(KEY.namespace, "third")]
    assert seen_version(writes) == "8"


@mutant("kube/own_writes.py", "            self._written.clear()\n", "            pass\n")
def test_a_server_that_was_restored_from_a_backup_is_believed() -> None:
    writes = own_writes(version=5)
    writes.wrote(unit(7))
    writes.store.replace([unit(3)], "4")
    assert seen_version(writes) == "3"
