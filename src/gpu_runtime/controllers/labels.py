"""Labels and annotations by which the reconcilers find their own again."""

from __future__ import annotations

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.labels import APP_NAME, MANAGED_BY, MANAGER

MANAGED = f"{MANAGED_BY}={MANAGER}"
"""Selector of everything that we made: caches hold nothing else."""

CONTROLLED_BY = f"{GROUP}/controlled-by"
"""Label of pods and ReplicaSets: UID of the object that they run for. Names come back, UIDs never do."""

REVISION = "deployment.kubernetes.io/revision"
"""Annotation of Deployments and ReplicaSets, by their controller: equal for a Deployment and its current ReplicaSet."""

POD_TEMPLATE = f"{GROUP}/pod-template"
"""Annotation of a Deployment: the pod template as it was built for the spec that it serves."""


def child_labels(app: str, role: str, name: str) -> dict[str, str]:
    """Labels of every child: `role` is the label key that names the owner, and selects its pods."""
    return {APP_NAME: app, MANAGED_BY: MANAGER, role: name}


def controlled_by(obj_labels: dict[str, str]) -> tuple[str, ...]:
    """The UID in CONTROLLED_BY, as an index wants it."""
    uid = obj_labels.get(CONTROLLED_BY)
    return (uid,) if uid else ()


def is_controlled_by(child: ObjectMeta, owner: ObjectMeta) -> bool:
    """Whether `owner`, this very object, controls the child."""
    reference = child.controller
    return reference is not None and reference.uid == owner.uid
