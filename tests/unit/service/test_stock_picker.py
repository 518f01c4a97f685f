"""Which stock a hand-over is given: concurrent ones do not fight for the same unit while there are others."""

from __future__ import annotations

import pytest

from equipment.clock import FakeClock
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import StockChoice
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import InsufficientCapacity
from gpu_runtime.service.cluster import GPU_UNITS
from gpu_runtime.service.stock.picker import BY_SPEC, OLDEST, PROMISED_SECONDS, StockPicker, by_spec
from gpu_runtime.service.stock.ready_stock import age
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory
from unit.service.test_ready_stock import a_stock_unit


def a_picker(count: int, clock: FakeClock) -> StockPicker:
    memory, store = Memory(), Store[GPUUnit]()
    store.index(BY_SPEC, by_spec)
    stock = [memory.put(GPU_UNITS, a_stock_unit(2 * number, number, number + 1)) for number in range(count)]
    store.replace(stock, "1")
    return StockPicker(memory, store, "runtime-stock", None, clock=clock)


def choose(picker: StockPicker, *tried: str) -> StockChoice:
    return finish(picker.choose("g0", tried))


def test_one_unit_is_not_given_twice_while_there_are_others() -> None:
    picker = a_picker(30, FakeClock())
    assert len({choose(picker).uid for _ in range(30)}) == 30


def test_the_last_unit_is_given_again_because_a_claim_decides() -> None:
    picker = a_picker(1, FakeClock())
    first = choose(picker)
    assert choose(picker) == first
    with pytest.raises(InsufficientCapacity):
        choose(picker, first.uid)


def test_a_unit_that_was_chosen_and_never_claimed_comes_back() -> None:
    clock = FakeClock()
    picker = a_picker(2, clock)
    first = choose(picker)
    clock.advance(PROMISED_SECONDS)
    assert first in {choose(picker) for _ in range(2)}


def test_only_the_oldest_are_chosen_among() -> None:
    picker = a_picker(3 * OLDEST, FakeClock())
    by_age = [unit.metadata.uid for unit in sorted(picker.cached("g0"), key=age)]
    assert max(by_age.index(choose(picker).uid) for _ in range(10)) < OLDEST + 10
