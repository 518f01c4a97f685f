"""The order of a hand-over: a unit runs only when it was admitted and its stock is gone."""

from __future__ import annotations

from collections.abc import Iterator

from equipment.judge.timeline import Life, State, Timeline, marks
from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID, SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE


def premature_workloads(timeline: Timeline, *, stock_namespace: str = STOCK_NAMESPACE) -> list[str]:
    """Deployments of units that were still inert, or whose stock still held its place, when they were made."""
    active = [life for life in timeline.of_kind("Deployment") if life.namespace != stock_namespace]
    return [violation for deployment in active for violation in _judge(deployment, timeline)]


def _judge(deployment: Life, timeline: Timeline) -> Iterator[str]:
    owners = deployment.last["metadata"].get("ownerReferences") or []
    unit = next((timeline.lives[owner["uid"]] for owner in owners if owner["uid"] in timeline.lives), None)
    if unit is None or unit.kind != "GPUUnit":
        return
    then = _at(unit, deployment.begin)
    if then is None or OPERATION_UID not in marks(then.document):
        return
    source = marks(then.document).get(SOURCE_STOCK_UID)
    if not source:
        yield f"{deployment} was made at resourceVersion {deployment.begin}, when {unit} was not admitted"
    elif (stock := timeline.lives.get(source)) and deployment.begin <= stock.end:
        yield f"{deployment} of {unit} was made at resourceVersion {deployment.begin}, beside its stock {stock}"


def _at(life: Life, version: int) -> State | None:
    return next((state for state in reversed(life.states) if state.version <= version), None)
