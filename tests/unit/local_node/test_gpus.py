"""Who holds which GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.local.node.gpus import Gpu, NotEnoughGpus, allocate, devices, environment, simulated


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3), max_size=6), st.integers(0, 8))
def test_no_gpu_is_ever_given_twice_and_a_refusal_gives_nothing(pods: list[dict[str, int]], count: int) -> None:
    held: list[dict[str, list[str]]] = []
    for wanted in pods:
        try:
            given_ = allocate(simulated(count), held, wanted)
        except NotEnoughGpus:
            continue
        assert {name: len(ids) for name, ids in given_.items()} == {name: n for name, n in wanted.items() if n}
        held.append(given_)
    everything = [gpu for holding in held for ids in holding.values() for gpu in ids]
    assert len(everything) == len(set(everything)) <= count


ORDERS = {
    "an init container and a main one share": ({"init": 1, "main": 1}, ["init"], 1),
    "a large init container decides": ({"init": 3, "main": 1, "other": 1}, ["init"], 3),
    "large main ones decide": ({"init": 1, "main": 2, "other": 2}, ["init"], 4),
    "init containers share with each other": ({"one": 2, "two": 2, "main": 1}, ["one", "two"], 2),
    "a sidecar keeps its own": ({"side": 1, "init": 1, "main": 1}, ["init"], 2),
    "a sidecar takes over from an init container before it": ({"init": 1, "side": 1}, ["init"], 1),
}


@pytest.mark.parametrize(("wanted", "given_back", "needed"), ORDERS.values(), ids=ORDERS)
def test_a_pod_needs_as_many_gpus_as_run_at_one_time(
    wanted: dict[str, int], given_back: list[str], needed: int
) -> None:
    given_ = allocate(simulated(needed), [], wanted, given_back)
    assert {name: len(set(ids)) for name, ids in given_.items()} == wanted
    staying = [gpu for name, ids in given_.items() if name not in given_back for gpu in ids]
    assert len(staying) == len(set(staying)), "those that run together share nothing"
    with pytest.raises(NotEnoughGpus, match=f"Requested: {needed}, Available: {needed - 1}"):
        allocate(simulated(needed - 1), [], wanted, given_back)


def test_an_init_container_shares_nothing_with_the_sidecar_that_runs_beside_it() -> None:
    given_ = allocate(simulated(3), [], {"side": 1, "init": 2, "main": 1}, ["init"])
    assert not set(given_["side"]) & {*given_["init"], *given_["main"]}


def test_a_container_sees_the_devices_of_its_own_gpus_and_each_shared_one_once() -> None:
    gpus = [
        Gpu(id=f"GPU-{n}", name="H", memoryBytes=1, devices=[f"/dev/nvidia{n}", "/dev/nvidiactl"]) for n in range(3)
    ]
    assert devices(gpus, ["GPU-0", "GPU-2"]) == ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia2"]
    assert devices(gpus, []) == []


@pytest.mark.parametrize(
    ("ids", "cuda", "nvidia"), [([], "", "void"), (["GPU-1", "GPU-2"], "GPU-1,GPU-2", "GPU-1,GPU-2")]
)
def test_programs_are_told_exactly_their_gpus(ids: list[str], cuda: str, nvidia: str) -> None:
    assert environment(simulated(2), ids) == {"CUDA_VISIBLE_DEVICES": cuda, "NVIDIA_VISIBLE_DEVICES": nvidia}


def test_real_gpus_bring_the_place_of_their_libraries_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    real = [Gpu(id="GPU-1", name="H", memoryBytes=1, devices=["/dev/nvidia0"])]
    assert environment(real, ["GPU-1"])["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert "LD_LIBRARY_PATH" not in environment(real, [])
    assert "LD_LIBRARY_PATH" not in environment(simulated(1), ["0"])
