"""The resources that pods request of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.local.kinds.container import Container
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.usage import most_at_once

Amounts = dict[str, int]
"""Amounts by resource name, in billionths, so that nothing is rounded."""
PODS = "pods"


@lru_cache(maxsize=4096)
def _nanos(text: str) -> int:
    return Quantity.parse(text).nanos


def amounts(quantities: Mapping[str, str]) -> Amounts:
    return {name: _nanos(text) for name, text in quantities.items()}


def requests(pod: Pod) -> Amounts:
    """The most that the pod needs at any time: its containers together, or an init container with its sidecars."""
    starting = [(_own(container), container.restartPolicy != "Always") for container in pod.spec.initContainers]
    running = [(_own(container), False) for container in pod.spec.containers]
    return _sum(_sum(most_at_once([*starting, *running]), amounts(pod.spec.overhead)), {PODS: _nanos("1")})


def used_by(pods: Iterable[Pod]) -> Amounts:
    total = Amounts()
    for pod in pods:
        total = _sum(total, requests(pod))
    return total


def _own(container: Container) -> Amounts:
    return amounts(container.resources.requests)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
