"""Claims, volumes and storage classes."""

from __future__ import annotations

import copy
from typing import Any

from gpu_runtime.local.apiserver.errors import Cause, disallowed, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns_subdomain, qualified_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import chosen, node_selector_causes, selector_causes
from gpu_runtime.local.apiserver.strategies.volumes import host_path_causes
from gpu_runtime.local.apiserver.strategy import Strategy, keep
from gpu_runtime.local.quantities import nanos

_ACCESS = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
_NOT_SOURCES = {
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
}


def _access_causes(spec: Object) -> list[Cause]:
    modes = spec.get("accessModes") or []
    if not modes:
        return [required("spec.accessModes", "at least 1 access mode is required")]
    causes = [unsupported("spec.accessModes", mode, _ACCESS) for mode in modes if mode not in _ACCESS]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(disallowed("spec.accessModes", text))
    return causes


def _class_causes(spec: Object) -> list[Cause]:
    name = spec.get("storageClassName", "")
    return [wrong("spec.storageClassName", name, message) for message in dns_subdomain(name)] if name else []


class ClaimStrategy(Strategy):
    has_status = True
    returns_deleted = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = _access_causes(spec)
        if spec.get("selector") is not None:
            causes += selector_causes(spec["selector"], "spec.selector")
        request = (spec.get("resources") or {}).get("requests", {}).get("storage")
        if request is None:
            causes.append(required("spec.resources[storage]"))
        elif nanos(request) <= 0:
            causes.append(wrong("spec.resources[storage]", request, "must be greater than zero"))
        return causes + _class_causes(spec)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        now, before = copy.deepcopy(new["spec"]), copy.deepcopy(old["spec"])
        if not before.get("volumeName"):
            keep(before, now, "volumeName")
        if "storageClassName" not in before:
            keep(before, now, "storageClassName")  # the default class may be set after creation
        size, was = _requested(now), _requested(before)
        if old["status"]["phase"] == "Bound":
            keep(now, before, "volumeAttributesClassName")
            if now.get("resources", {}).get("requests"):
                keep(now["resources"]["requests"], before["resources"]["requests"], "storage")
        if now != before:
            allowed = "resources.requests and volumeAttributesClassName for bound claims"
            text = f"spec is immutable after creation except {allowed}"
            causes.append(disallowed("spec", text))
        have = old["status"].get("capacity", {}).get("storage", "0")
        if nanos(size) < nanos(was) and nanos(size) <= nanos(have):
            text = "field can not be less than status.capacity"
            causes.append(disallowed("spec.resources.requests.storage", text))
        return causes + _mode_causes(new, old)


def _requested(spec: Object) -> str:
    found: str = spec.get("resources", {}).get("requests", {}).get("storage", "0")
    return found


def _mode_causes(new: Object, old: Object) -> list[Cause]:
    mode = new["spec"].get("volumeMode")
    return [] if mode == old["spec"].get("volumeMode") else [immutable("volumeMode", mode)]


class VolumeStrategy(Strategy):
    has_status = True
    returns_deleted = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object, now: str) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}

    def prepare_status(self, new: Object, old: Object, now: str) -> None:
        keep(new, old, "spec")
        status, before = new["status"], old["status"]
        since = "lastPhaseTransitionTime"
        if status["phase"] == before["phase"]:
            if since in before:
                status.setdefault(since, before[since])
        elif status.get(since) in (None, before.get(since)):
            status[since] = now

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = _access_causes(spec)
        capacity = spec.get("capacity") or {}
        if set(capacity) != {"storage"} or nanos(capacity["storage"]) <= 0:
            causes.append(required("spec.capacity", "must be a storage of more than zero"))
        if len(set(spec) - _NOT_SOURCES) != 1:
            causes.append(required("spec", "must specify exactly one volume type"))
        if "hostPath" in spec:
            causes += host_path_causes(spec["hostPath"], "spec.hostPath")
        if "local" in spec:
            causes += _local(spec)
        causes += _class_causes(spec)
        if spec.get("nodeAffinity"):
            inside = "spec.nodeAffinity.required"
            needed: Any = spec["nodeAffinity"].get("required")
            causes += node_selector_causes(needed, inside) if needed is not None else [required(inside)]
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        sources = sorted((set(new["spec"]) | set(old["spec"])) - _NOT_SOURCES)
        if any(new["spec"].get(name) != old["spec"].get(name) for name in sources):
            text = "spec.persistentvolumesource is immutable after creation"
            causes.append(disallowed("spec.persistentvolumesource", text))
        return causes + _mode_causes(new, old)


def _local(spec: Object) -> list[Cause]:
    causes = []
    if not spec["local"].get("path"):
        causes.append(required("spec.local.path"))
    if not spec.get("nodeAffinity"):
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes


class StorageClassStrategy(Strategy):
    returns_deleted = True

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Object) -> list[Cause]:
        provisioner = obj.get("provisioner", "")
        causes = (
            [wrong("provisioner", provisioner, message) for message in qualified_name(provisioner.lower())]
            if provisioner
            else [required("provisioner")]
        )
        return causes + (
            chosen("reclaimPolicy", obj["reclaimPolicy"], ["Delete", "Retain"]) if obj["reclaimPolicy"] else []
        )

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        changed = [name for name in fixed if new.get(name) != old.get(name)]
        return self.validate(new) + [disallowed(name, f"updates to {name} are forbidden.") for name in changed]
