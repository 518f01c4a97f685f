"""Labels and annotations of the children, and how a child is matched to its owner."""

from __future__ import annotations

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.labels import APP_NAME, MANAGED_BY, MANAGER

MANAGED = f"{MANAGED_BY}={MANAGER}"
"""Selector of all objects that this product created. Caches of built-in kinds hold only these."""

CONTROLLED_BY = f"{GROUP}/controlled-by"
"""Label of pods and ReplicaSets: UID of the object that they run for. UIDs are never reused, names are."""

REVISION = "deployment.kubernetes.io/revision"
"""Annotation that Kubernetes sets: a Deployment and its current ReplicaSet have the same revision."""

POD_TEMPLATE = f"{GROUP}/pod-template"
"""Annotation of a Deployment: the pod template that was built for the owner's current spec."""


def child_labels(app: str, role: str, name: str) -> dict[str, str]:
    """Labels of every child. `role` is the label key that holds the owner's name; Services select pods by it."""
    return {APP_NAME: app, MANAGED_BY: MANAGER, role: name}


def controlled_by(obj_labels: dict[str, str]) -> tuple[str, ...]:
    """The UID in the label CONTROLLED_BY, as an index function returns it."""
    uid = obj_labels.get(CONTROLLED_BY)
    return (uid,) if uid else ()


def is_controlled_by(child: ObjectMeta, owner: ObjectMeta) -> bool:
    """Whether `owner` controls the child, by UID."""
    reference = child.controller
    return reference is not None and reference.uid == owner.uid
