"""The machine's GPUs, and which container holds which."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

LIBRARIES = "LD_LIBRARY_PATH"
SIMULATED_MEMORY = 80 * 1024**3


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One device: `id` is what CUDA_VISIBLE_DEVICES takes, `devices` the files that a container needs to use it."""

    id: str
    name: str
    memoryBytes: int
    devices: list[str] = []


class NotEnoughGpus(Exception):
    """The pod asks for more GPUs than are free; the message says how many there are."""


def simulated(count: int) -> list[Gpu]:
    return [Gpu(id=str(number), name="Simulated GPU", memoryBytes=SIMULATED_MEMORY) for number in range(count)]


def discover() -> list[Gpu]:
    """The real GPUs through NVML; none where the driver or its Python binding is missing."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # the binding raises its own types, which cannot be named without it
        return []
    try:
        return [_describe(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]
    finally:
        nvml.nvmlShutdown()


def _describe(nvml: Any, handle: Any) -> Gpu:
    minor = nvml.nvmlDeviceGetMinorNumber(handle)
    shared = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
    return Gpu(
        id=str(nvml.nvmlDeviceGetUUID(handle)),
        name=str(nvml.nvmlDeviceGetName(handle)),
        memoryBytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        devices=[str(Path("/dev") / name) for name in (f"nvidia{minor}", *shared)],
    )


def allocate(
    gpus: Iterable[Gpu],
    held: Iterable[Mapping[str, list[str]]],
    wanted: Mapping[str, int],
    given_back: Iterable[str] = (),
) -> dict[str, list[str]]:
    """Gives each container its own GPUs out of those that no other pod holds; all or nothing.

    `wanted` is in start order. Containers in `given_back` end before the next one starts: later ones get their GPUs.
    """
    taken = {id_ for holding in held for ids in holding.values() for id_ in ids}
    free = [gpu.id for gpu in gpus if gpu.id not in taken]
    ending, needed = set(given_back), 0
    spare: list[int] = []
    given: dict[str, list[int]] = {}
    for container, count in wanted.items():
        if not count:
            continue
        fresh = range(needed, needed + max(0, count - len(spare)))
        mine, rest = [*spare[:count], *fresh], spare[count:]
        given[container], needed = mine, needed + len(fresh)
        spare = sorted(mine + rest) if container in ending else rest
    if needed > len(free):
        raise NotEnoughGpus(f"Requested: {needed}, Available: {len(free)}")
    return {container: [free[number] for number in numbers] for container, numbers in given.items()}


def environment(gpus: Iterable[Gpu], ids: list[str]) -> dict[str, str]:
    """The variables that make a program use exactly these devices, or none when there are none."""
    visible = ",".join(ids)
    variables = {"NVIDIA_VISIBLE_DEVICES": visible or "void", "CUDA_VISIBLE_DEVICES": visible}
    libraries = os.environ.get(LIBRARIES, "")
    if libraries and devices(gpus, ids):
        variables[LIBRARIES] = libraries  # where machines keep the driver's libraries outside the loader's own folders
    return variables


def devices(gpus: Iterable[Gpu], ids: list[str]) -> list[str]:
    """The device files that a container holding `ids` may see, each once."""
    found: dict[str, None] = {}
    for gpu in gpus:
        if gpu.id in ids:
            found.update(dict.fromkeys(gpu.devices))
    return list(found)
