"""I3, no orphans: after quiet, every child has a live owner with the same UID, and every claim a live claimant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from equipment.judge.timeline import Document, marks, phase
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, CLAIMED_BY, OPERATION_UID, SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE

UNFINISHED = frozenset({"Pending", "Running"})


def orphans(objects: Iterable[Document], *, stock_namespace: str = STOCK_NAMESPACE) -> list[str]:
    """Violations of I3 in a listing of everything: children, owners, operations and what is claimed."""
    listed = list(objects)
    return [
        *_children(listed),
        *_claims(listed, stock_namespace),
        *_attachments(listed),
        *_inert_units(listed, stock_namespace),
    ]


def describe(document: Document) -> str:
    metadata = document["metadata"]
    where = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return f"{document['kind']} {where}"


def _children(listed: list[Document]) -> Iterator[str]:
    by_uid = {document["metadata"]["uid"]: document for document in listed}
    by_name = {_key(document): document for document in listed}
    for child in listed:
        namespace = child["metadata"].get("namespace", "")
        for owner in child["metadata"].get("ownerReferences") or []:
            if not owner.get("controller") or owner["uid"] in by_uid:
                continue
            named = [by_name.get((owner["kind"], place, owner["name"])) for place in (namespace, "")]
            other = next((found["metadata"]["uid"] for found in named if found), None)
            fate = f"lives with another UID, {other}" if other else "is gone"
            yield f"{describe(child)}: its owner {owner['kind']} {owner['name']} (uid {owner['uid']}) {fate}"


def _key(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _claims(listed: list[Document], stock_namespace: str) -> Iterator[str]:
    operations = _of_kind(listed, "Operation")
    for unit in _of_kind(listed, "GPUUnit").values():
        claimant = marks(unit).get(CLAIMED_BY)
        if claimant and unit["metadata"].get("namespace") == stock_namespace:
            yield from _claimant(f"{describe(unit)} is claimed", claimant, operations)


def _claimant(claim: str, uid: str, operations: dict[str, Document]) -> Iterator[str]:
    operation = operations.get(uid)
    if operation is None:
        yield f"{claim} by operation {uid}, which does not exist"
    elif phase(operation) not in UNFINISHED:
        yield f"{claim} by {describe(operation)}, which is over ({phase(operation)})"


def _attachments(listed: list[Document]) -> Iterator[str]:
    units, storages = _of_kind(listed, "GPUUnit"), _of_kind(listed, "GPUStorage")
    by_operation = {marks(unit).get(OPERATION_UID): unit for unit in units.values()}
    for storage in storages.values():
        if not (text := marks(storage).get(ATTACHED_TO)):
            continue
        holder = json.loads(text)
        claim = f"{describe(storage)} is attached"
        if holder.get("storage"):
            if holder["uid"] not in storages:
                yield f"{claim} to storage {holder['storage']} (uid {holder['uid']}), which does not exist"
        elif holder.get("uid"):
            if holder["uid"] not in units:
                yield f"{claim} to unit {holder.get('unit')} (uid {holder['uid']}), which does not exist"
        elif holder.get("operation") not in by_operation:
            yield from _claimant(claim, holder.get("operation", ""), _of_kind(listed, "Operation"))


def _inert_units(listed: list[Document], stock_namespace: str) -> Iterator[str]:
    """A unit that an operation made and that was never admitted must not be left over."""
    for unit in _of_kind(listed, "GPUUnit").values():
        made_by_an_operation = unit["metadata"].get("namespace") != stock_namespace and OPERATION_UID in marks(unit)
        if made_by_an_operation and not marks(unit).get(SOURCE_STOCK_UID):
            yield f"{describe(unit)} was never admitted, and never removed"


def _of_kind(listed: list[Document], kind: str) -> dict[str, Document]:
    return {document["metadata"]["uid"]: document for document in listed if document["kind"] == kind}
