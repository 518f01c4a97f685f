"""Checks whether the claims of a pod allow its placement. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_runtime.api.meta.object import Key
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.storage import WAIT_FOR_FIRST_CONSUMER, Claim, StorageClass

SELECTED_NODE = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True)
class ClaimsVerdict:
    problem: str = ""
    """Why no node can take the pod for now."""
    unbound: list[Claim] = field(default_factory=list)
    """Claims that wait for the choice of a node."""


def assess_claims(
    pod: Pod, claim: Callable[[Key], Claim | None], storage_class: Callable[[Key], StorageClass | None]
) -> ClaimsVerdict:
    unbound = []
    for name in pod.claims:
        found = claim(Key(pod.metadata.namespace, name))
        if found is None:
            return ClaimsVerdict(f'persistentvolumeclaim "{name}" not found')
        if found.metadata.deletionTimestamp is not None:
            return ClaimsVerdict(f'persistentvolumeclaim "{name}" is being deleted')
        if found.status.phase == "Lost":
            lost = f'persistentvolume "{found.spec.volumeName}"'
            return ClaimsVerdict(f'persistentvolumeclaim "{name}" bound to non-existent {lost}')
        if found.status.phase == "Bound":
            continue
        known = storage_class(Key("", found.class_name))
        if known is None or known.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER:
            return ClaimsVerdict("pod has unbound immediate PersistentVolumeClaims")
        unbound.append(found)
    return ClaimsVerdict(unbound=unbound)
