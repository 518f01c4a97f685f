"""Keeps the workers of one function at the number that its queue needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_runtime.activator.caches import Caches
from gpu_runtime.activator.decision import Drain, Policy, decide
from gpu_runtime.activator.demand import Demand
from gpu_runtime.activator.observation import Limits, Memory, Observer, Seen
from gpu_runtime.activator.resources.worker import is_made_for
from gpu_runtime.activator.workers import Workers
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, GPUFunctionSpec
from gpu_runtime.kube.clock import Clock
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.subjects import Function

DRAIN_AGAIN_SECONDS = 2.0


@dataclass(frozen=True)
class Scaling:
    """Observes, decides and acts. What it remembers of a function begins anew with each process."""

    caches: Caches
    backlog: Backlog
    heartbeats: Heartbeats
    workers: Workers
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    memories: dict[Key, Memory] = field(default_factory=dict)

    async def scale(self, function: GPUFunction, *, min_workers: int | None = None) -> float | None:
        """One decision, carried out. Returns after how many seconds to decide again although nothing changed."""
        now, memory = self.clock.monotonic(), self._memory(function)
        policy = policy_of(function.spec, min_workers)
        memory.demand.observe(now, policy.needed(self.load(function)))
        seen = self.observe(function)
        await self.workers.adopt(function, [each.unit for each in seen])
        decision = decide(policy, memory.demand, [each.worker for each in seen], now)
        await self.workers.carry_out(function, seen, memory, decision.actions)
        drains = any(isinstance(action, Drain) for action in decision.actions)
        delays = [DRAIN_AGAIN_SECONDS] if drains else []
        return min(
            [*delays, *self._patience(seen), *([decision.look_again] if decision.look_again else [])], default=None
        )

    def observe(self, function: GPUFunction) -> list[Seen]:
        """The function's own workers as they are now."""
        observer = Observer(
            function, self._memory(function), self.clock.monotonic(), self.heartbeats.since, self.limits
        )
        units = [unit for unit in self.caches.workers_of(function) if is_made_for(unit, function.metadata.uid)]
        return observer.workers(units, self.heartbeats.of(Function(*function.metadata.key)))

    def load(self, function: GPUFunction) -> int:
        return self.backlog.load(Function(*function.metadata.key))

    def forget(self, key: Key) -> None:
        """For a function that no longer exists."""
        self.memories.pop(key, None)

    def _patience(self, seen: list[Seen]) -> list[float]:
        """After how many seconds a starting worker may be late, or a ready one silent."""
        starting = any(each.worker.state == "starting" for each in seen)
        ready = any(each.worker.state == "ready" for each in seen)
        return [*([self.limits.ready_seconds] if starting else []), *([self.limits.silent_seconds] if ready else [])]

    def _memory(self, function: GPUFunction) -> Memory:
        meta = function.metadata
        found = self.memories.get(meta.key)
        if found is None or found.uid != meta.uid:
            found = self.memories[meta.key] = Memory(meta.uid, Demand(self.clock.monotonic()))
        return found


def policy_of(spec: GPUFunctionSpec, min_workers: int | None = None) -> Policy:
    return Policy(
        concurrency=spec.concurrency,
        min_workers=min(spec.minWorkers if min_workers is None else min_workers, spec.maxWorkers),
        max_workers=spec.maxWorkers,
        idle_seconds=float(spec.idleTimeoutSeconds),
    )
