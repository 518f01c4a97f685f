"""Claims and volumes are protected while in use, claims get the default class, new nodes start tainted."""

from __future__ import annotations

from gpu_runtime.local.apiserver.admission import Attempt, Plugin
from gpu_runtime.local.apiserver.errors import forbidden
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.quantities import nanos

_PROTECTION = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}
_CLASSES = "storageclasses.storage.k8s.io"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class StorageProtection(Plugin):
    """Gives claims and volumes the finalizer that their controller removes when no pod or claim uses them."""

    def admit(self, attempt: Attempt, store: Store) -> None:  # noqa: ARG002
        finalizer = _PROTECTION.get(attempt.kind.resource)
        if finalizer is None or attempt.operation != "CREATE" or attempt.new is None:
            return
        finalizers = attempt.new["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)


class DefaultStorageClass(Plugin):
    """A claim that names no class gets the newest default one."""

    def admit(self, attempt: Attempt, store: Store) -> None:
        claim = attempt.new
        if attempt.kind.resource != "persistentvolumeclaims" or attempt.operation != "CREATE" or claim is None:
            return
        if "storageClassName" in claim["spec"]:
            return
        found = [record.object() for record in store.all_current(_CLASSES)]
        defaults = [one for one in found if (one["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
        if defaults:
            newest = max(defaults, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
            claim["spec"]["storageClassName"] = newest["metadata"]["name"]

    def check(self, attempt: Attempt, store: Store) -> None:
        """Refuses a larger claim unless its StorageClass allows expansion."""
        if attempt.kind.resource != "persistentvolumeclaims" or attempt.operation != "UPDATE" or attempt.subresource:
            return
        if attempt.new is None or attempt.old is None or _size(attempt.new) <= _size(attempt.old):
            return
        record = store.current(_CLASSES, attempt.new["spec"].get("storageClassName", ""))
        if record is None or not record.object().get("allowVolumeExpansion"):
            text = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize"
            )
            raise forbidden(attempt.kind.subject, attempt.name, text)


def _size(claim: Object) -> int:
    return nanos(claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0"))


class TaintNewNodes(Plugin):
    """Gives a new node the not-ready taint, which goes when the node reports that it is ready."""

    def admit(self, attempt: Attempt, store: Store) -> None:  # noqa: ARG002
        if attempt.kind.resource != "nodes" or attempt.operation != "CREATE" or attempt.new is None:
            return
        taints = attempt.new.setdefault("spec", {}).setdefault("taints", [])
        if not any(one.get("key") == _NOT_READY["key"] and one.get("effect") == _NOT_READY["effect"] for one in taints):
            taints.append(dict(_NOT_READY))
