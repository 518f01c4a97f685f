"""Reads: from the cache where it can be trusted, else from the server."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.service import reading
from gpu_runtime.service.cluster import GPU_UNITS
from gpu_runtime.service.listing import Filter, list_page
from gpu_runtime.service.reading import Reader
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory

KEY = Key("ns", "unit")


def a_unit(name: str = "unit") -> GPUUnit:
    return GPUUnit(metadata=ObjectMeta(name=name, namespace="ns"), spec=GPUUnitSpec(specName="g"))


class Bench:
    def __init__(self) -> None:
        self.memory = Memory()
        self.store = Store[GPUUnit]()
        self.reader = Reader(self.memory, GPU_UNITS, self.store)

    def cache(self, unit: GPUUnit) -> None:
        self.store.replace([unit], unit.metadata.resourceVersion)

    def read(self) -> GPUUnit | None:
        return finish(self.reader.get(KEY))


def test_a_miss_of_the_cache_is_confirmed_by_the_server() -> None:
    bench = Bench()
    assert bench.read() is None
    made = bench.memory.put(GPU_UNITS, a_unit())
    assert bench.read() == made


def test_what_the_cache_has_costs_no_call() -> None:
    bench = Bench()
    made = bench.memory.put(GPU_UNITS, a_unit())
    bench.cache(made)
    finish(bench.memory.delete(GPU_UNITS, KEY))
    assert bench.read() == made


def test_after_a_write_of_our_own_an_older_cache_is_not_asked() -> None:
    bench = Bench()
    made = bench.memory.put(GPU_UNITS, a_unit())
    bench.cache(made)
    changed = finish(bench.memory.replace(GPU_UNITS, replace(made, spec=GPUUnitSpec(specName="g", image="new"))))
    bench.reader.wrote(changed)
    assert bench.read() == changed
    bench.cache(changed)
    assert bench.reader.cached(KEY) == changed


@mutant("service/reading.py", "if version > self.store.version}", "if version <= self.store.version}")
def test_of_many_writes_only_those_are_forgotten_that_the_cache_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_REMEMBERED", 2)
    bench = Bench()
    made, other = bench.memory.put(GPU_UNITS, a_unit()), bench.memory.put(GPU_UNITS, a_unit("other"))
    bench.store.replace([made, other], other.metadata.resourceVersion)
    changed = finish(bench.memory.replace(GPU_UNITS, replace(made, spec=GPUUnitSpec(specName="g", image="new"))))
    for written in (other, changed, bench.memory.put(GPU_UNITS, a_unit("third"))):
        bench.reader.wrote(written)
    assert bench.read() == changed
    assert bench.reader.cached(other.metadata.key) == other


def test_after_a_deletion_of_our_own_the_cache_is_not_believed() -> None:
    bench = Bench()
    made = bench.memory.put(GPU_UNITS, a_unit())
    bench.cache(made)
    finish(bench.memory.delete(GPU_UNITS, KEY))
    bench.reader.deleted(made)
    assert bench.read() is None
    again = bench.memory.put(GPU_UNITS, a_unit())
    bench.cache(again)
    assert bench.reader.cached(KEY) == again


def test_a_list_before_the_first_answer_of_the_cluster_is_refused_instead_of_empty() -> None:
    with pytest.raises(Unavailable):
        Bench().reader.all()


def test_pages_show_every_object_once_and_survive_changes_between_them() -> None:
    units = [a_unit(f"unit-{number}") for number in range(7)]
    shown: list[str] = []
    token = ""
    while True:
        page = list_page(units, Filter(limit=3, token=token), lambda unit: unit.metadata.name, namespace="ns")
        shown += page.items
        units = [*units, a_unit(f"later-{len(shown)}")]
        token = page.token
        if not token:
            break
    assert shown == [f"unit-{number}" for number in range(7)]
