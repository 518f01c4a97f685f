"""Our own writes are known before the watch tells them, and given up as soon as it does."""

from __future__ import annotations

from equipment.builders import a_unit
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.controllers.mirror import Mirror
from gpu_runtime.kube import Store

KEY = Key("runtime-instance", "u")


def unit(version: int, name: str = "u") -> GPUUnit:
    return a_unit(name).with_uid("a").at_version(version).object()


def mirror(*cached: GPUUnit, version: int) -> Mirror[GPUUnit]:
    store = Store[GPUUnit]()
    store.replace(cached, str(version))
    return Mirror(store)


def seen_version(mirrored: Mirror[GPUUnit]) -> str | None:
    found = mirrored.get(KEY)
    return found.metadata.resourceVersion if found else None


@mutant("controllers/mirror.py", "            self._written[obj.metadata.key] = obj\n", "            pass\n")
def test_a_write_is_known_before_the_cache_shows_it() -> None:
    mirrored = mirror(version=5)
    mirrored.wrote(unit(7))
    assert seen_version(mirrored) == "7"
    mirrored.store.saw("6")
    assert seen_version(mirrored) == "7"


def test_the_cache_is_believed_once_it_has_come_as_far() -> None:
    mirrored = mirror(unit(4), version=5)
    mirrored.wrote(unit(7))
    mirrored.store.upsert(unit(7))
    mirrored.store.upsert(unit(8))
    mirrored.store.saw("8")
    assert seen_version(mirrored) == "8"


def test_what_was_deleted_after_our_write_is_gone() -> None:
    mirrored = mirror(version=5)
    mirrored.wrote(unit(7))
    mirrored.store.saw("9")
    assert seen_version(mirrored) is None


def test_an_answer_that_the_cache_is_past_already_is_not_kept() -> None:
    mirrored = mirror(unit(9), version=9)
    mirrored.wrote(unit(7))
    assert seen_version(mirrored) == "9"


@mutant("controllers/mirror.py", "        self._forget_told()\n", "")
def test_what_nobody_asks_for_again_is_forgotten_too() -> None:
    mirrored = mirror(version=5)
    for version in range(6, 100):
        mirrored.wrote(unit(version, f"u{version}"))
        mirrored.store.saw(str(version - 1))
    assert list(mirrored._written) == [Key(KEY.namespace, "u98"), Key(KEY.namespace, "u99")]


def test_a_second_write_of_an_object_is_kept_as_long_as_the_first_of_another() -> None:
    mirrored = mirror(version=5)
    mirrored.wrote(unit(6))
    mirrored.wrote(unit(7, "other"))
    mirrored.wrote(unit(8))
    mirrored.store.saw("7")
    mirrored.wrote(unit(9, "third"))
    assert list(mirrored._written) == [KEY, Key(KEY.namespace, "third")]
    assert seen_version(mirrored) == "8"
