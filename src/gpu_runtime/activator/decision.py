"""Decides which workers of a function start, drain, change and end. Pure: values in, values out.

docs/scaling.md has the rules in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from gpu_runtime.activator.demand import Demand
from gpu_runtime.kube.backoff import Exponential

SCALE_OUT_SECONDS = 1.0
REPLACEMENTS = Exponential(first=10.0, most=300.0)

WorkerState = Literal["starting", "ready", "draining", "failed", "ending"]
"""`draining` and `ready` are what the worker itself says; `ending`: its unit is being deleted."""


@dataclass(frozen=True)
class Policy:
    """The part of a function's spec that decides about the number of its workers."""

    concurrency: int = 1
    min_workers: int = 0
    max_workers: int = 1
    idle_seconds: float = 300.0

    def needed(self, load: int) -> int:
        return min(self.max_workers, max(self.min_workers, ceil(load / self.concurrency)))


@dataclass(frozen=True)
class Worker:
    """One worker as it is now. Its slot is its name: no two workers of a function have the same."""

    slot: int
    state: WorkerState
    state_seconds: float = 0.0
    """For how long it has been in this state."""
    running: int = 0
    idle_seconds: float = 0.0
    """For how long it has had no work, by its own account."""
    outdated: Literal["", "patch", "replace"] = ""
    """Whether its unit differs from what the function now asks for, and whether the unit can be changed in place."""
    failures: int = 0
    """How many workers in this slot failed before it, since the last one that was ready."""


@dataclass(frozen=True)
class Create:
    slot: int


@dataclass(frozen=True)
class Drain:
    slot: int


@dataclass(frozen=True)
class Patch:
    slot: int


@dataclass(frozen=True)
class Remove:
    slot: int


Action = Create | Drain | Patch | Remove


@dataclass(frozen=True)
class Decision:
    """What to do now, and after how many seconds to decide again although nothing changed."""

    actions: Sequence[Action] = ()
    look_again: float | None = None


@dataclass
class _Plan:
    """One decision while it is made."""

    policy: Policy
    workers: Sequence[Worker]
    actions: list[Action] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)

    def do(self, action: Action) -> None:
        self.actions.append(action)

    def later(self, seconds: float | None) -> None:
        if seconds is not None:
            self.delays.append(max(seconds, 0.05))

    @property
    def untouched(self) -> list[Worker]:
        """The workers that stay: neither on their way out nor touched by an action."""
        touched = {action.slot for action in self.actions}
        return [
            each for each in self.workers if each.state in ("starting", "ready", "failed") and each.slot not in touched
        ]

    @property
    def changing(self) -> list[Worker]:
        """The workers that change now or soon. A busy one may have to finish a long run first, so it does not count."""
        patched = {action.slot for action in self.actions if isinstance(action, Patch)}
        drained = {action.slot for action in self.actions if isinstance(action, Drain)}
        soon = [each for each in self.workers if each.outdated and each.slot in drained and not each.running]
        return [*soon, *(each for each in self.workers if each.slot in patched)]

    def decision(self) -> Decision:
        return Decision(self.actions, min(self.delays, default=None))


def decide(policy: Policy, demand: Demand, workers: Sequence[Worker], now: float) -> Decision:
    """`demand` has the current need as its last observation."""
    plan = _Plan(policy, workers)
    keep = _kept(plan, demand, now)
    _finish_drains(plan, keep)
    _scale_in(plan, keep)
    _end_idle(plan, demand.most(now, policy.idle_seconds)[0])
    _replace_failed(plan)
    _roll(plan)
    _scale_out(plan, demand, now)
    return plan.decision()


def _kept(plan: _Plan, demand: Demand, now: float) -> int:
    """How many workers the last idleTimeoutSeconds justify; maxWorkers until so much time was observed."""
    policy = plan.policy
    most, falls_after = demand.most(now, policy.idle_seconds)
    unseen = demand.since + policy.idle_seconds - now
    if unseen > 0:
        plan.later(unseen if plan.untouched else None)
        return policy.max_workers
    plan.later(falls_after if len(plan.untouched) > policy.min_workers else None)
    return min(policy.max_workers, max(policy.min_workers, most))


def _finish_drains(plan: _Plan, keep: int) -> None:
    """A drained worker ends; an outdated one that is still needed changes, which starts it again."""
    staying = len(plan.untouched)
    for worker in plan.workers:
        if worker.state == "draining" and not worker.running:
            changes = worker.outdated == "patch" and staying < keep
            staying += changes
            plan.do(Patch(worker.slot) if changes else Remove(worker.slot))


def _scale_in(plan: _Plan, keep: int) -> None:
    for worker in _least_useful(plan.untouched)[: max(0, len(plan.untouched) - keep)]:
        plan.do(_end(worker))


def _end_idle(plan: _Plan, needed: int) -> None:
    """Ends workers that report a long idle time. After a restart of the activator only the workers know it.

    `needed`: how many the observed time justifies.
    """
    working = [each for each in plan.untouched if each.state != "failed"]
    spare = len(working) - max(needed, plan.policy.min_workers)
    ready = [each for each in working if each.state == "ready" and not each.running]
    for worker in sorted(ready, key=lambda each: -each.idle_seconds)[: max(0, spare)]:
        if worker.idle_seconds >= plan.policy.idle_seconds:
            plan.do(Drain(worker.slot))
        else:
            plan.later(plan.policy.idle_seconds - worker.idle_seconds)


def _replace_failed(plan: _Plan) -> None:
    """After the back-off. An outdated one is left to `_roll`, which changes it at once: the change may be the cure."""
    for worker in plan.untouched:
        if worker.state != "failed" or worker.outdated:
            continue
        wait = REPLACEMENTS.after(worker.failures) - worker.state_seconds
        if wait <= 0:
            plan.do(Remove(worker.slot))
        else:
            plan.later(wait)


def _roll(plan: _Plan) -> None:
    outdated = [each for each in plan.untouched if each.outdated]
    for worker in outdated:
        if worker.state != "ready":
            plan.do(Patch(worker.slot) if worker.outdated == "patch" else Remove(worker.slot))
    changing = [each for each in plan.workers if each.outdated and each.state != "ready"]
    current = [each for each in plan.untouched if not each.outdated]
    if changing or any(each.state != "ready" for each in current):
        return
    ready = _least_useful(each for each in outdated if each.state == "ready")
    if ready:
        plan.do(Drain(ready[0].slot))


def _scale_out(plan: _Plan, demand: Demand, now: float) -> None:
    policy, staying = plan.policy, plan.untouched
    is_ready = any(each.state == "ready" for each in plan.workers)
    if not is_ready and any(each.state == "failed" for each in plan.workers):
        return  # the function is broken: more workers of it would fail as well
    wanted, rises_after = demand.least(now, SCALE_OUT_SECONDS)
    if not is_ready:
        wanted, rises_after = demand.needed, None
    plan.later(rises_after)
    # Units that still exist count against the limit, also those that an action above removes: the removal may fail.
    missing = min(
        max(wanted, policy.min_workers) - len(staying) - len(plan.changing), policy.max_workers - len(plan.workers)
    )
    taken = {each.slot for each in plan.workers}
    for slot in [slot for slot in range(policy.max_workers) if slot not in taken][: max(0, missing)]:
        plan.do(Create(slot))


def _least_useful(workers: Iterable[Worker]) -> list[Worker]:
    """In the order in which workers should end: failed, starting, then ready ones by what they have to do."""
    order = {"failed": 0, "starting": 1, "ready": 2}
    return sorted(
        workers,
        key=lambda each: (order[each.state], not each.outdated, each.running, -each.idle_seconds, -each.slot),
    )


def _end(worker: Worker) -> Action:
    return Drain(worker.slot) if worker.state == "ready" else Remove(worker.slot)
