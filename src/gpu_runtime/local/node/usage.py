"""Measures what containers use: reads the counters of their cgroups twice and takes the difference."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.local.apiserver.usage import Measured, Usage

SHORTEST_INTERVAL = 1.0  # seconds between two readings, at least
OLDEST_READING = 60.0  # an earlier reading that is older is not used
BILLION = 1_000_000_000
_TICK = BILLION // os.sysconf("SC_CLK_TCK")

Process = tuple[int, int]
"""Process id and start time: the id alone may belong to another process by now."""


@dataclass(frozen=True)
class Reading:
    """One reading: nanoseconds of processor time used so far, and bytes of memory in use."""

    at: float
    machine: Usage
    containers: dict[tuple[str, str], tuple[dict[Process, int], int]]


class PodUsage:
    """Measures the running containers below one data directory. A second request within a minute need not wait."""

    def __init__(self, data_dir: Path) -> None:
        self._pods = data_dir / "pods"
        self._last: Reading | None = None
        self._lock = asyncio.Lock()

    async def measure(self) -> Measured:
        async with self._lock:
            before = self._last
            if before is None or not SHORTEST_INTERVAL <= time.monotonic() - before.at <= OLDEST_READING:
                before = await asyncio.to_thread(self._read)
                await asyncio.sleep(SHORTEST_INTERVAL)
            self._last = now = await asyncio.to_thread(self._read)
            return between(before, now)

    def _read(self) -> Reading:
        containers = {}
        for pod in self._pods.iterdir() if self._pods.is_dir() else ():
            for name, groups in _running(pod):
                memory = _memory(groups)
                if memory is not None:
                    containers[(pod.name, name)] = (dict(_processor_time(groups)), memory)
        return Reading(time.monotonic(), _machine(), containers)


def between(before: Reading, now: Reading) -> Measured:
    """The usage between two readings; a process counts from the first reading that has it. Pure."""
    seconds = max(now.at - before.at, 0.001)
    pods: dict[str, dict[str, Usage]] = {}
    for (pod, name), (times, memory) in now.containers.items():
        earlier = before.containers.get((pod, name), ({}, 0))[0]
        used = sum(max(0, spent - earlier[process]) for process, spent in times.items() if process in earlier)
        pods.setdefault(pod, {})[name] = Usage(int(used / seconds), memory)
    machine = Usage(int((now.machine.cpu - before.machine.cpu) / seconds), now.machine.memory)
    return Measured(seconds, machine, pods)


def _running(pod: Path) -> Iterator[tuple[str, list[Path]]]:
    """The containers of a pod that run, with their cgroups."""
    for path in sorted((pod / "containers").glob("*/*/spec.json")):
        try:
            if json.loads(path.with_name("state.json").read_bytes())["status"] != "running":
                continue
            spec = json.loads(path.read_bytes())
        except (OSError, ValueError, KeyError):  # it has just gone, or not yet begun
            continue
        yield spec["name"], [Path(procs).parent for procs in spec["cgroups"]]


def _memory(groups: list[Path]) -> int | None:
    """The memory in use without what the kernel could drop at once; None where this machine does not count it."""
    for group in groups:
        for current, idle in (("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file")):
            try:
                used = int((group / current).read_text())
                parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            except OSError:
                continue
            return max(0, used - int(parts.get(idle, 0)))
    return None


def _processor_time(groups: list[Path]) -> Iterator[tuple[Process, int]]:
    """The time of the whole cgroup where the kernel counts it, else of each process with its ended children."""
    for group in groups:
        try:
            lines = (group / "cpu.stat").read_text().splitlines()
            yield (0, 0), int(dict(line.split() for line in lines)["usage_usec"]) * 1000
        except (OSError, KeyError):
            continue
        return
    try:
        members = (groups[0] / "cgroup.procs").read_text().split()
    except (OSError, IndexError):
        return
    for pid in members:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        yield (int(pid), int(fields[19])), sum(map(int, fields[11:15])) * _TICK


def _machine() -> Usage:
    times = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = times[3] + times[4]
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    memory = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
    return Usage((sum(times) - idle) * _TICK, memory["MemTotal"] - memory["MemAvailable"])
