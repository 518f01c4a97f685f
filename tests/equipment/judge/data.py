"""I7 and I8 of storages: data goes only with a storage that nobody holds, and one volume has one writer at a time.

The timeline must hold GPUStorages, GPUUnits, PersistentVolumeClaims, Deployments, ReplicaSets, Jobs and Pods.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from equipment.judge.timeline import Document, Life, State, Timeline, marks, phase
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, STORAGE_UID

MAKERS = ("Deployment", "ReplicaSet", "Job")
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Use:
    """A pod that mounts a claim, or something that makes such pods, from one version until another."""

    life: Life
    writer: str  # UID of the unit, or of the Job that fills a storage
    claim: tuple[str, str]
    begin: int
    end: float  # the first version at which it is over

    def overlaps(self, other: Use) -> bool:
        return self.begin < other.end and other.begin < self.end

    def __str__(self) -> str:
        return f"{self.life} from resourceVersion {self.begin} to {self.end}"


def data_kept(timeline: Timeline, *, by_hand: Collection[str] = ()) -> list[str]:
    """Violations of I7. `by_hand`: names of claims whose deletion a person asked for; even they stay until the end."""
    uses = list(_uses(timeline))
    claims = [life for life in timeline.of_kind("PersistentVolumeClaim") if STORAGE_UID in marks(life.last)]
    violations = [
        violation
        for claim in claims
        for judged in (_deletion(claim, timeline, uses, by_hand), _shrinks(claim))
        for violation in judged
    ]
    return [*violations, *_made_again(claims)]


def one_writer(timeline: Timeline) -> list[str]:
    """Violations of I8: two units, or a unit and a copy, mount one claim at once, or a record changes hands."""
    by_claim: dict[tuple[str, str], list[Use]] = {}
    for use in _uses(timeline):
        by_claim.setdefault(use.claim, []).append(use)
    violations = [
        f"claim {'/'.join(claim)} is mounted twice: {one}, and {other}"
        for claim, uses in by_claim.items()
        for one, other in combinations(uses, 2)
        if one.writer != other.writer and one.overlaps(other)
    ]
    return [*violations, *(each for life in timeline.of_kind("GPUStorage") for each in _handed_on(life))]


def mounted(timeline: Timeline) -> set[str]:
    """UIDs of the units that had a pod with a claim: a run without any proves nothing."""
    return {use.writer for use in _uses(timeline) if use.life.kind == "Pod"}


def _deletion(claim: Life, timeline: Timeline, uses: list[Use], by_hand: Collection[str]) -> Iterator[str]:
    asked = next((state.version for state in claim.states if _is_being_deleted(state.document)), None)
    versions = {claim.end} if claim.gone else set()
    if asked is not None and claim.name not in by_hand:
        versions.add(asked)
    storage = timeline.lives.get(marks(claim.last)[STORAGE_UID])
    for version in sorted(versions):
        if storage is None:
            yield f"{claim} is deleted, and its storage was never seen"
            continue
        then = _at(storage, version)
        if then is not None and not _is_being_deleted(then.document):
            yield f"{claim} is deleted at resourceVersion {version}, and {storage} is wanted"
        if then is not None and (holder := marks(then.document).get(ATTACHED_TO)):
            yield f"{claim} is deleted at resourceVersion {version}, and {storage} is held by {holder}"
        for use in uses:
            if use.claim == (claim.namespace, claim.name) and use.begin <= version < use.end:
                yield f"{claim} is deleted at resourceVersion {version}, and mounted by {use}"


def _shrinks(claim: Life) -> Iterator[str]:
    for words, path in (("asks for", ("spec", "resources", "requests")), ("has", ("status", "capacity"))):
        sizes = [(state.version, size) for state in claim.states if (size := _size(state.document, path)) is not None]
        for (_, before), (version, after) in pairwise(sizes):
            if after < before:
                yield f"{claim} {words} {after} at resourceVersion {version}, and {before} before"


def _size(document: Document, path: tuple[str, ...]) -> Quantity | None:
    for step in path:
        document = document.get(step) or {}
    return Quantity.parse(document["storage"]) if "storage" in document else None


def _made_again(claims: list[Life]) -> Iterator[str]:
    for one, other in combinations(claims, 2):
        if marks(one.last)[STORAGE_UID] == marks(other.last)[STORAGE_UID]:
            yield f"{other} was made again, empty, for the storage of {one}"


def _handed_on(storage: Life) -> Iterator[str]:
    """A record ends by being removed, never by another holder's."""
    for (_, one), (version, other) in pairwise(storage.annotation(ATTACHED_TO)):
        if one and other and _holder(one) != _holder(other):
            yield f"{storage}: its record went from {one} to {other} at resourceVersion {version}"


def _holder(record: str) -> tuple[str, str]:
    """Unit and storage by name: the record of an operation and that of its unit mean the same holder."""
    holder = json.loads(record)
    return holder.get("unit", ""), holder.get("storage", "")


def _uses(timeline: Timeline) -> Iterator[Use]:
    for life in timeline.lives.values():
        if life.kind not in (*MAKERS, "Pod") or not (writer := _writer(life, timeline)):
            continue
        for claim in {claim for state in life.states for claim in _claims(life.kind, state.document)}:
            for begin, end in _times(life, claim):
                yield Use(life, writer, (life.namespace, claim), begin, end)


def _times(life: Life, claim: str) -> Iterator[tuple[int, float]]:
    """From when to when it mounts the claim, or may make a pod that does."""
    begin: int | None = None
    for state in life.states:
        mounts = claim in _claims(life.kind, state.document)
        if mounts and begin is None:
            begin = state.version
        elif not mounts and begin is not None:
            yield begin, state.version
            begin = None
    if begin is not None:
        yield begin, life.end


def _claims(kind: str, document: Document) -> set[str]:
    """Names of the claims that are mounted now, or will be by a pod that is made."""
    spec = document.get("spec") or {}
    if kind == "Pod":
        if phase(document) in ENDED:
            return set()
    else:
        ended = any(
            each["type"] in ("Complete", "Failed") and each["status"] == "True"
            for each in (document.get("status") or {}).get("conditions") or []
            if kind == "Job"
        )
        if ended or spec.get("replicas") == 0 or spec.get("suspend"):
            return set()
        spec = spec["template"]["spec"]
    volumes = [each.get("persistentVolumeClaim") for each in spec.get("volumes") or []]
    return {each["claimName"] for each in volumes if each}


def _writer(life: Life, timeline: Timeline) -> str:
    """Who writes through it: the unit or the Job that controls it; "" for pods that serve files, which only read."""
    while True:
        if life.kind in ("GPUUnit", "Job"):
            return life.uid
        owners = [each for each in life.last["metadata"].get("ownerReferences") or [] if each.get("controller")]
        if not owners:
            return ""
        if owners[0]["kind"] in ("GPUUnit", "Job"):
            return str(owners[0]["uid"])
        owner = timeline.lives.get(owners[0]["uid"])
        if owner is None:
            return ""
        life = owner


def _at(life: Life, version: float) -> State | None:
    """As it was at a version; None when it did not live then."""
    if version > life.end:
        return None
    return next((state for state in reversed(life.states) if state.version <= version), None)


def _is_being_deleted(document: Document) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))
