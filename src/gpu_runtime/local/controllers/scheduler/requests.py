"""What a pod asks of a node, and what is left there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.local.controllers.pods import Container, Pod

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
    running, peak = Amounts(), Amounts()
    for container in pod.spec.initContainers:
        if container.restartPolicy == "Always":
            running = _sum(running, _own(container))
            peak = _most(peak, running)
        else:
            peak = _most(peak, _sum(running, _own(container)))
    for container in pod.spec.containers:
        running = _sum(running, _own(container))
    return _sum(_sum(_most(peak, running), amounts(pod.spec.overhead)), {PODS: _nanos("1")})


def used_by(pods: Iterable[Pod]) -> Amounts:
    total = Amounts()
    for pod in pods:
        total = _sum(total, requests(pod))
    return total


def _own(container: Container) -> Amounts:
    return amounts(container.resources.requests)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def _most(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
