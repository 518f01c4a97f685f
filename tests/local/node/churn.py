"""Pods that come, run, end and go while something happens to their node; each bears witness in files that it shares.

A pod writes a line when it starts. One with a GPU holds a lock that is named by it, and says when another holds it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from equipment.waiting import eventually
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.node.agent.status import TERMINAL
from local.node.cluster import Cluster, main, sh

LONGEST_LIFE = 1.5
UNTIL_LEFT_ALONE = 600.0
"""A pod is promised to get on only when its node has come to rest."""

CLAIM_GPU = """
exec 9> /ledger/gpu-$CUDA_VISIBLE_DEVICES
flock -n 9 || echo "GPU $CUDA_VISIBLE_DEVICES is held by another" >> /ledger/twice
"""


@dataclass(frozen=True)
class Witness:
    """What is known of one pod after its end: its own word, and the API's."""

    name: str
    starts: int
    restarts: int
    expected: int
    code: int | None


@dataclass
class Churn:
    """Places that are always taken: as soon as a pod has gone, the next one comes."""

    cluster: Cluster
    ledger: Path
    random: Random
    ended: list[Witness] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def going_on(self, *, tasks: int, gpu_tasks: int, visitors: int) -> AsyncIterator[None]:
        """Inside the block pods come and go; leaving it waits until the last of them have gone."""
        async with asyncio.TaskGroup() as group:
            for number in range(tasks + gpu_tasks):
                group.create_task(self._tasks(f"task-{number}", gpu=number >= tasks))
            for number in range(visitors):
                group.create_task(self._visitors(f"visitor-{number}"))
            try:
                yield
            finally:
                self._over.set()

    async def server(self, name: str, *, gpu: bool) -> None:
        """A pod that runs until the end of the test."""
        await self._create(name, "exec sleep 3600", gpu=gpu, policy="Always")

    def starts(self, name: str) -> int:
        written = self.ledger / name
        return len(written.read_text().splitlines()) if written.exists() else 0

    async def _tasks(self, place: str, *, gpu: bool) -> None:
        """One after the other, each ends with a code of its own when it is told to."""
        number = 0
        while not self._over.is_set():
            number += 1
            name, code = f"{place}-{number}", self.random.randrange(256)
            signal = self.ledger / f"{name}.go"
            os.mkfifo(signal)
            await self._create(name, f"read go < /ledger/{signal.name}; exit {code}", gpu=gpu, policy="Never")
            await self._live()
            writer = os.open(signal, os.O_RDWR)  # for reading too: so it need not wait for the pod to listen
            try:
                os.write(writer, b"go\n")
                pod = await self.cluster.until(name, lambda pod: pod.status.phase in TERMINAL, within=UNTIL_LEFT_ALONE)
            finally:
                os.close(writer)
            self._bear_witness(pod, code)
            await self._remove(name)

    async def _visitors(self, place: str) -> None:
        """One after the other, each is deleted wherever it has got to."""
        number = 0
        while not self._over.is_set():
            number += 1
            name = f"{place}-{number}"
            await self._create(name, "exec sleep 3600", gpu=False, policy="Always")
            await self._live()
            await self._remove(name)

    async def _live(self) -> None:
        await asyncio.sleep(self.random.uniform(0, LONGEST_LIFE))  # not to synchronise: to be met in every state

    async def _create(self, name: str, then: str, *, gpu: bool, policy: str) -> None:
        claim = CLAIM_GPU if gpu else ""
        container = sh(
            f"{claim}\necho started >> /ledger/{name}\n{then}",
            volumeMounts=[{"name": "ledger", "mountPath": "/ledger"}],
            resources={"limits": {"nvidia.com/gpu": "1"}} if gpu else {},
        )
        volumes = [{"name": "ledger", "hostPath": {"path": str(self.ledger)}}]
        await self.cluster.run(name, container, volumes=volumes, restartPolicy=policy)

    def _bear_witness(self, pod: Pod, expected: int) -> None:
        name, status = pod.metadata.name, main(pod)
        code = status.state.terminated.exitCode if status.state.terminated else None
        self.ended.append(Witness(name, self.starts(name), status.restartCount, expected, code))

    async def _remove(self, name: str) -> None:
        pod = await self.cluster.pod(name)
        await self.cluster.client.delete(PODS, pod.metadata.key)
        await eventually(lambda: self.cluster.gone(name), within=UNTIL_LEFT_ALONE, what=f"pod {name} gone")
        self.removed.append(pod.metadata.uid)
