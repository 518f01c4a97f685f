"""The embedded API server beside kube-apiserver and etcd: creates, lists, watch latency, start-up, memory.

Both sync every write to disk before they answer it: etcd with its defaults, SQLite with synchronous FULL.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop

from realkube import binaries, flags
from realkube.api import Access
from realkube.control_plane import ControlPlane
from realkube.process import Process, free_ports, wait_until

ROUNDS = 3
CREATES = {1: 200, 50: 1000}
"""Objects a round, by the number of clients."""
LISTED = 5_000
STORED = 10_000
LISTS = 5
PATCHES = 300
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PATCH = {"Content-Type": "application/merge-patch+json"}


@dataclass
class Subject:
    """One server and what was measured of it."""

    name: str
    access: Access
    processes: list[int]
    measured: dict[str, float] = field(default_factory=dict)
    made: int = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        context = ssl.create_default_context(cafile=str(self.access.ca_file))
        headers = {"Authorization": f"Bearer {self.access.token}"}
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        async with aiohttp.ClientSession(self.access.url, headers=headers, connector=connector) as http:
            yield http

    async def create(self, http: aiohttp.ClientSession, path: str = CONFIGMAPS) -> None:
        self.made += 1
        body = {"metadata": {"name": f"object-{self.made}", "labels": {"app": "bench"}}, "data": {"text": "x" * 300}}
        async with http.post(path, json=body) as response:
            assert response.status == 201, await response.text()
            await response.read()


class DurableControlPlane(ControlPlane):
    """etcd, with fsync, and kube-apiserver; nothing else that takes CPU."""

    def start(self) -> None:
        programs = binaries.ensure("etcd", "kube-apiserver", say=self._say)
        etcd_port, peer_port, api_port = free_ports(3, self._address)
        self.admin = Access(f"https://{self._address}:{api_port}", self.authority.ca_file, self.admin_user.token)
        etcd = flags.etcd(self.folder / "etcd", self._address, etcd_port, peer_port)
        self._run(programs["etcd"], [flag for flag in etcd if flag != "--unsafe-no-fsync"])
        server = flags.apiserver(self._identity(), self._address, api_port, etcd_port, self._service_network)
        self._run(programs["kube-apiserver"], server)
        self._wait(self.admin.ready, "kube-apiserver is ready")


@contextmanager
def real(folder: Path) -> Iterator[Subject]:
    plane = DurableControlPlane(folder / "real", say=lambda _: None)
    binaries.ensure("etcd", "kube-apiserver", say=print)  # a build is no start-up
    begun = time.perf_counter()
    with plane:
        subject = Subject("kube-apiserver + etcd", plane.admin, plane.process_ids())
        subject.measured["start-up, s"] = time.perf_counter() - begun
        yield subject


@contextmanager
def embedded(folder: Path) -> Iterator[Subject]:
    data = folder / "embedded"
    command = [sys.executable, "-m", "gpu_runtime.local.apiserver", "--data-dir", str(data)]
    begun = time.perf_counter()
    process = Process("embedded", command, folder / "embedded.log")
    try:
        wait_until((data / "kubeconfig").exists, "the embedded server answers", [process])
        access = Access.of_kubeconfig(data / "kubeconfig", folder)
        wait_until(access.ready, "the embedded server is ready", [process])
        subject = Subject("embedded", access, [process.pid])
        subject.measured["start-up, s"] = time.perf_counter() - begun
        yield subject
    finally:
        process.kill()


async def creates(subject: Subject, clients: int) -> float:
    """Creates a second with this many clients."""
    count = CREATES[clients]
    async with subject.session() as http:
        begun = time.perf_counter()

        async def client() -> None:
            for _ in range(count // clients):
                await subject.create(http)

        await asyncio.gather(*(client() for _ in range(clients)))
        return count / (time.perf_counter() - begun)


async def fill(subject: Subject, count: int) -> None:
    async with subject.session() as http:

        async def client() -> None:
            while subject.made < count:
                await subject.create(http)

        await asyncio.gather(*(client() for _ in range(32)))


async def list_time(subject: Subject) -> float:
    """Milliseconds for a list of LISTED objects, the median of several."""
    taken = []
    async with subject.session() as http:
        for _ in range(LISTS):
            begun = time.perf_counter()
            async with http.get(CONFIGMAPS, params={"limit": str(LISTED)}) as response:
                body = await response.read()
            taken.append(time.perf_counter() - begun)
            assert len(json.loads(body)["items"]) == LISTED
    return statistics.median(taken) * 1000


async def watch_latency(subject: Subject) -> tuple[float, float]:
    """p50 and p99 in milliseconds from the sending of a write to its event."""
    sent: dict[str, float] = {}
    taken: list[float] = []
    async with subject.session() as http:
        query = {"watch": "true", "fieldSelector": "metadata.name=object-1", "resourceVersion": "0"}
        async with http.get(CONFIGMAPS, params=query) as response:
            await response.content.readline()

            async def read() -> None:
                while len(taken) < PATCHES:
                    event = json.loads(await response.content.readline())
                    taken.append(time.perf_counter() - sent[event["object"]["data"]["text"]])

            reader = asyncio.ensure_future(read())
            for number in range(PATCHES):
                sent[str(number)] = time.perf_counter()
                patch = {"data": {"text": str(number)}}
                async with http.patch(f"{CONFIGMAPS}/object-1", json=patch, headers=PATCH) as answer:
                    await answer.read()
            await reader
            response.close()
    ordered = sorted(taken)
    return ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.99)] * 1000


def resident(processes: list[int]) -> float:
    """MiB that the processes hold."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def measure(subjects: list[Subject]) -> None:
    """Rounds of the servers take turns, so that both meet the same neighbours."""
    for clients in CREATES:
        rates: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for _ in range(ROUNDS):
            for subject in subjects:
                rates[subject.name].append(await creates(subject, clients))
        for subject in subjects:
            subject.measured[f"creates/s, {clients} client{'s' if clients > 1 else ''}"] = max(rates[subject.name])
    for subject in subjects:
        await fill(subject, LISTED)
        subject.measured[f"list of {LISTED}, ms"] = await list_time(subject)
        p50, p99 = await watch_latency(subject)
        subject.measured |= {"write to watch p50, ms": p50, "write to watch p99, ms": p99}
        await fill(subject, STORED)
        subject.measured[f"memory at {STORED}, MiB"] = resident(subject.processes)


def table(subjects: list[Subject]) -> str:
    lines = [f"{'':26}" + "".join(f"{subject.name:>24}" for subject in subjects)]
    lines += [
        f"{what:26}" + "".join(f"{subject.measured[what]:24.2f}" for subject in subjects)
        for what in subjects[0].measured
    ]
    return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with real(folder) as first, embedded(folder) as second:
            uvloop.run(measure([first, second]))
            print(table([first, second]))


if __name__ == "__main__":
    main()
