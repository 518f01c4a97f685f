"""Computes the next size of each ReplicaSet of a Deployment. Pure: numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_runtime.local.kinds.workloads import Deployment


@dataclass(frozen=True)
class Size:
    """One ReplicaSet in numbers. Lists of them are ordered from the oldest to the newest."""

    name: str
    replicas: int
    available: int
    desired: int | None = None
    """The size of the Deployment when this ReplicaSet was last scaled."""
    present: bool = False
    """It has the Deployment's present template."""


@dataclass(frozen=True)
class Bounds:
    """The limits that a Deployment sets for its rollouts."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        return self.replicas + self.surge

    @property
    def least(self) -> int:
        return self.replicas - self.unavailable


def bounds(deployment: Deployment) -> Bounds:
    """Surge is rounded up and unavailability down; when both are 0, one pod may be unavailable."""
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == "Recreate":
        return Bounds(replicas, 0, 0)
    rolling = deployment.spec.strategy.rollingUpdate
    if rolling is None:
        return Bounds(replicas, 0, 0)
    surge = _amount(rolling.maxSurge, replicas, round_up=True)
    unavailable = _amount(rolling.maxUnavailable, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def most_replicas(deployment: Deployment) -> int:
    return bounds(deployment).most


def _amount(value: int | str, of: int, *, round_up: bool) -> int:
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-of * percent // 100) if round_up else of * percent // 100


def first_size(limits: Bounds, olds: Sequence[Size], *, recreate: bool) -> int:
    """The size that a ReplicaSet is created with."""
    if recreate:
        return limits.replicas
    total = sum(one.replicas for one in olds)
    return max(0, min(limits.most - total, limits.replicas))


def rolling_update(limits: Bounds, present: Size, olds: Sequence[Size]) -> dict[str, int]:
    """The new sizes by name: the present set grows within the surge; only when it cannot, old ones shrink."""
    grown = _grown(limits, present, olds)
    if grown != present.replicas:
        return {present.name: grown}
    room = sum(one.replicas for one in (present, *olds)) - limits.least - (present.replicas - present.available)
    if room <= 0:
        return {}
    cleaned = _without_unhealthy(olds, room)
    shrunk = _shrunk(cleaned, sum(one.available for one in (present, *olds)) - limits.least)
    before = {one.name: one.replicas for one in olds}
    return {one.name: one.replicas for one in shrunk if one.replicas != before[one.name]}


def _grown(limits: Bounds, present: Size, olds: Sequence[Size]) -> int:
    if present.replicas >= limits.replicas:
        return limits.replicas
    total = present.replicas + sum(one.replicas for one in olds)
    return present.replicas + max(0, min(limits.most - total, limits.replicas - present.replicas))


def _without_unhealthy(olds: Sequence[Size], room: int) -> list[Size]:
    """Removes unavailable pods of old sets first: they serve nobody and may block the rollout for ever."""
    left, result = room, []
    for one in olds:
        cut = max(0, min(left, one.replicas - one.available))
        left -= cut
        result.append(replace(one, replicas=one.replicas - cut))
    return result


def _shrunk(olds: Sequence[Size], spare: int) -> list[Size]:
    result = []
    for one in olds:
        cut = max(0, min(spare, one.replicas))
        spare -= cut
        result.append(replace(one, replicas=one.replicas - cut))
    return result


def recreate(limits: Bounds, present: Size | None, olds: Sequence[Size], *, old_pods_left: bool) -> dict[str, int]:
    """Deletes every old pod before it creates the first new one."""
    shrink = {one.name: 0 for one in olds if one.replicas}
    if shrink or old_pods_left or present is None or present.replicas == limits.replicas:
        return shrink
    return {present.name: limits.replicas}


def resized(limits: Bounds, present: Size | None, olds: Sequence[Size]) -> dict[str, int]:
    """New sizes after the Deployment's size changed. During a rollout there are none: its next steps set them."""
    active = [one for one in (*olds, *([present] if present else [])) if one.replicas]
    if len(active) <= 1:
        only = active[0] if active else present or (olds[-1] if olds else None)
        return {} if only is None or only.replicas == limits.replicas else {only.name: limits.replicas}
    if present is not None and _saturated(limits, present):
        return {one.name: 0 for one in olds if one.replicas}
    return {}


def _saturated(limits: Bounds, present: Size) -> bool:
    return present.replicas == present.available == limits.replicas == present.desired
