"""I1, one operationID, one effect: all replies agree, another payload is refused, across replicas and restarts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from equipment.judge.timeline import Document, Life, Timeline, marks, phase
from gpu_runtime.api.v1alpha1.annotations import OPERATION_ID, REQUEST_HASH
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE

OPERATION_CONFLICT = "operation_conflict"
COMMITTED = "Succeeded"


@dataclass(frozen=True)
class Reply:
    """What one client was told; `status` is None where it was told nothing, `made` names the object, in any form."""

    type: str
    operation_id: str
    payload: Any
    status: int | None
    code: str = ""
    made: Any = None

    @property
    def accepted(self) -> bool:
        return self.status is not None and self.status < 300


def one_effect(
    timeline: Timeline,
    replies: Iterable[Reply] = (),
    *,
    expected: Mapping[str, int] | None = None,
    stock_namespace: str = STOCK_NAMESPACE,
) -> list[str]:
    """Violations of I1. `expected`: how many objects an operationID makes, where that is not one."""
    return [
        *_replies_agree(list(replies)),
        *_one_record(timeline),
        *_committed_is_there(timeline),
        *_one_set_of_objects(timeline, expected or {}, stock_namespace),
    ]


def _replies_agree(replies: list[Reply]) -> Iterator[str]:
    by_operation: dict[tuple[str, str], list[Reply]] = defaultdict(list)
    for reply in replies:
        by_operation[reply.type, reply.operation_id].append(reply)
    for (kind, operation_id), told in by_operation.items():
        operation = f"{kind} {operation_id}"
        accepted = [reply for reply in told if reply.accepted]
        if not accepted:
            continue
        first = accepted[0]
        for other in accepted[1:]:
            if other.payload != first.payload:
                yield f"{operation}: two payloads were accepted: {first.payload!r} and {other.payload!r}"
            elif other.made != first.made:
                yield f"{operation}: one reply names {first.made!r}, another {other.made!r}"
        for refused in told:
            if refused.code == OPERATION_CONFLICT and refused.payload == first.payload:
                yield f"{operation}: the accepted payload was also refused with {OPERATION_CONFLICT}"


def _one_record(timeline: Timeline) -> Iterator[str]:
    """Creating the record is the lock: never two at once, and never two that committed."""
    by_operation: dict[tuple[str, str], list[Life]] = defaultdict(list)
    for record in timeline.of_kind("Operation"):
        spec = record.last.get("spec") or {}
        by_operation[spec.get("type", ""), spec.get("operationID", "")].append(record)
    for (kind, operation_id), records in by_operation.items():
        for one, other in combinations(records, 2):
            if one.overlaps(other):
                yield f"{kind} {operation_id} has two records at once: {one} and {other}"
        committed = [record for record in records if _committed(record)]
        if len(committed) > 1:
            yield f"{kind} {operation_id} was committed {len(committed)} times: {_names(committed)}"


def _committed(record: Life) -> bool:
    return any(phase(state.document) == COMMITTED for state in record.states)


def _committed_is_there(timeline: Timeline) -> Iterator[str]:
    """What a committed record names exists, unless the record says that it was deleted."""
    for record in timeline.of_kind("Operation"):
        status = record.last.get("status") or {}
        if record.gone or phase(record.last) != COMMITTED or status.get("deletionTime"):
            continue
        for made in status.get("objects") or []:
            if not any(_is(life, made) for life in timeline.lives.values()):
                yield f"{record} is committed, but {made['kind']} {made['namespace']}/{made['name']} is not there"


def _is(life: Life, reference: Document) -> bool:
    same_name = (life.kind, life.namespace, life.name) == tuple(reference[key] for key in ("kind", "namespace", "name"))
    return same_name and not life.gone and reference.get("uid", "") in ("", life.uid)


def _one_set_of_objects(timeline: Timeline, expected: Mapping[str, int], stock_namespace: str) -> Iterator[str]:
    by_operation: dict[tuple[str, str], list[Life]] = defaultdict(list)
    for life in timeline.lives.values():
        if operation_id := marks(life.last).get(OPERATION_ID):
            role = "stock " if life.namespace == stock_namespace else ""
            by_operation[role + life.kind, operation_id].append(life)
    for (role, operation_id), made in by_operation.items():
        allowed = expected.get(operation_id, 1)
        for life in made:
            together = [other for other in made if other.begin <= life.begin <= other.end]
            if len(together) > allowed:
                yield f"operation {operation_id} made {len(together)} of {role}, not {allowed}: {_names(together)}"
                break
        hashes = {marks(life.last).get(REQUEST_HASH, "") for life in made}
        if len(hashes) > 1:
            yield f"operation {operation_id} made {role} from different requests: {_names(made)}"


def _names(lives: list[Life]) -> str:
    return ", ".join(str(life) for life in lives)
