"""Whether a pod fits a node, and if not, why, in the real scheduler's words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runtime.local.controllers.scheduler.requests import PODS, Amounts, amounts, requests
from gpu_runtime.local.controllers.selectors import holds
from gpu_runtime.local.kinds.machines import Node
from gpu_runtime.local.kinds.pods import NodeSelectorTerm, Pod

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NOT_READY = "node(s) were not ready"
TOO_MANY_PODS = "Too many pods"


@dataclass(frozen=True)
class Place:
    """A node and what its pods use."""

    node: Node
    used: Amounts

    @property
    def name(self) -> str:
        return self.node.metadata.name


@dataclass(frozen=True)
class Misfit:
    """Why a node cannot take a pod; `curable` when it could if its other pods were gone."""

    reasons: tuple[str, ...]
    curable: bool = False


def misfit(pod: Pod, place: Place) -> Misfit | None:
    """The first obstacle, None when the pod fits."""
    node = place.node
    if node.spec.unschedulable:
        return Misfit((UNSCHEDULABLE,))
    if node.ready != "True":
        return Misfit((NOT_READY,))
    if not _selected(pod, node):
        return Misfit((AFFINITY,))
    return _lack(requests(pod), place)


def _lack(wanted: Amounts, place: Place) -> Misfit | None:
    has = amounts(place.node.status.allocatable)
    lacking = [
        name for name, amount in wanted.items() if amount and amount > has.get(name, 0) - place.used.get(name, 0)
    ]
    if not lacking:
        return None
    reasons = tuple(TOO_MANY_PODS if name == PODS else f"Insufficient {name}" for name in lacking)
    return Misfit(reasons, curable=all(wanted[name] <= has.get(name, 0) for name in lacking))


def _selected(pod: Pod, node: Node) -> bool:
    if not pod.spec.nodeSelector.items() <= node.metadata.labels.items():
        return False
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    return required is None or any(term_matches(term, node) for term in required.nodeSelectorTerms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """All requirements of one term; an empty term fits nothing."""
    if not term.matchExpressions and not term.matchFields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(holds(one, node.metadata.labels) for one in term.matchExpressions) and all(
        holds(one, fields) for one in term.matchFields
    )


def explain(misfits: Sequence[Misfit]) -> str:
    """One line for all nodes, with how many have each obstacle."""
    count = len(misfits)
    if not count:
        return "no nodes available to schedule pods"
    curable = sum(one.curable for one in misfits)
    hopes = ["Preemption is not helpful for scheduling"] * (count - curable)
    hopes += ["No preemption victims found for incoming pod"] * curable
    reasons = _histogram(reason for one in misfits for reason in one.reasons)
    return (
        f"0/{count} nodes are available: {reasons}. no new claims to deallocate, "
        f"preemption: 0/{count} nodes are available: {_histogram(hopes)}."
    )


def explain_for_all(count: int, reason: str) -> str:
    """One line for an obstacle that is the same on every node."""
    return f"0/{count} nodes are available: {reason}. not found"


def _histogram(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
