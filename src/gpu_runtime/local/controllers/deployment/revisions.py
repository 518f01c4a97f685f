"""Templates and their history: names, numbers and annotations of the ReplicaSets of a Deployment."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gpu_runtime.api.meta.names import SUBDOMAIN_LENGTH
from gpu_runtime.api.meta.object import ObjectMeta, OwnerReference, controller_reference, wire
from gpu_runtime.local.controllers.deployment.rollout import most_replicas
from gpu_runtime.local.kinds.wire import Template
from gpu_runtime.local.kinds.workloads import DEPLOYMENTS, Deployment, ReplicaSet

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_OWN_ANNOTATIONS = {
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MOST,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
}
_SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no word appears by chance
_HASH_LENGTH = 10
_EPOCH = datetime.fromtimestamp(0, UTC)


def template_hash(template: Template, collisions: int | None) -> str:
    """A hash of this template; another number of collisions gives another hash."""
    text = msgspec.json.encode(template, order="deterministic") + str(collisions or 0).encode()
    number = int.from_bytes(hashlib.sha256(text).digest()[:16], "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, rest = divmod(number, len(_SAFE_LETTERS))
        letters.append(_SAFE_LETTERS[rest])
    return "".join(letters)


def same_template(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    """Whether the ReplicaSet was made from the Deployment's present template."""
    return _unlabelled(replica_set.spec.template) == _unlabelled(deployment.spec.template)


def _unlabelled(template: Template) -> Template:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    metadata.pop("labels", None)
    return {**template, "metadata": {**metadata, **({"labels": labels} if labels else {})}}


def find_current(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The oldest ReplicaSet with the present template: two of them can only be an accident of old versions."""
    return next((one for one in oldest_first(sets) if same_template(deployment, one)), None)


def oldest_first(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return sorted(sets, key=lambda one: (one.metadata.creationTimestamp or _EPOCH, one.metadata.name))


def revision_of(meta: ObjectMeta) -> int:
    text = meta.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def next_revision(others: Sequence[ReplicaSet]) -> int:
    """One more than the highest revision of the other ReplicaSets."""
    return max((revision_of(one.metadata) for one in others), default=0) + 1


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """The Deployment's size, recorded on its ReplicaSets: a later change of the size is detected by it."""
    return {DESIRED: str(deployment.spec.replicas), MOST: str(most_replicas(deployment))}


def set_annotations(deployment: Deployment, current: ReplicaSet | None, revision: int) -> dict[str, str]:
    """The annotations of the present ReplicaSet, which show as those of its revision in `rollout history`."""
    own = {key: value for key, value in deployment.metadata.annotations.items() if key not in _OWN_ANNOTATIONS}
    had = current.metadata.annotations if current is not None else {}
    before = revision_of(current.metadata) if current is not None else 0
    annotations = {**own, REVISION: str(max(revision, before))}
    if history := had.get(REVISION_HISTORY):
        annotations[REVISION_HISTORY] = history
    if 0 < before < revision:
        annotations[REVISION_HISTORY] = f"{history},{before}" if history else str(before)
    return annotations


def new_set(deployment: Deployment, replicas: int, revision: int) -> dict[str, Any]:
    """The ReplicaSet of the present template."""
    digest = template_hash(deployment.spec.template, deployment.status.collisionCount)
    template = deployment.spec.template
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
    selector = wire(deployment.spec.selector)
    selector["matchLabels"] = {**deployment.spec.selector.matchLabels, HASH_LABEL: digest}
    owner: OwnerReference = controller_reference(DEPLOYMENTS.api_version, DEPLOYMENTS.kind, deployment.metadata)
    return {
        "metadata": {
            "name": f"{deployment.metadata.name[: SUBDOMAIN_LENGTH - _HASH_LENGTH - 1]}-{digest}",
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": {**set_annotations(deployment, None, revision), **size_annotations(deployment)},
            "ownerReferences": [wire(owner)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.minReadySeconds,
            "selector": selector,
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
