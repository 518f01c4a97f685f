"""Namespaces and Nodes."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, disallowed, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns_label, qualified_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategy import Strategy, keep

NAME_LABEL = "kubernetes.io/metadata.name"
_EFFECTS = ["NoExecute", "NoSchedule", "PreferNoSchedule"]


class NamespaceStrategy(Strategy):
    name_rule = staticmethod(dns_label)
    has_status = True
    returns_deleted = True
    fields = ("status.phase", "name")

    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"].get("name", "")
        obj["status"] = {"phase": "Active"}
        held = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in held:
            held.append("kubernetes")

    def prepare_update(self, new: Object, old: Object) -> None:
        keep(new, old, "spec")
        keep(new, old, "status")

    def prepare_finalize(self, new: Object, old: Object) -> None:
        keep(new, old, "status")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        phase = new.get("status", {}).get("phase")
        if new["metadata"].get("deletionTimestamp"):
            return (
                []
                if phase == "Terminating"
                else [wrong("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
            )
        return (
            []
            if phase == "Active"
            else [wrong("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        )

    def ending(self, obj: Object, now: str) -> bool:
        if self.removable(obj):
            return False
        obj["metadata"]["deletionTimestamp"] = now
        obj["status"]["phase"] = "Terminating"
        return True

    def removable(self, obj: Object) -> bool:
        return not (obj.get("spec") or {}).get("finalizers")


class NodeStrategy(Strategy):
    has_status = True
    fields = ("spec.unschedulable",)

    def default(self, obj: Object) -> None:
        status = obj.get("status", {})
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Object, now: str) -> None:
        """A node may register with its status, as kubelets do."""

    def prepare_update(self, new: Object, old: Object) -> None:
        keep(new, old, "status")

    def validate(self, obj: Object) -> list[Cause]:
        causes = []
        seen = set()
        for at, taint in enumerate(obj.get("spec", {}).get("taints", [])):
            field = f"metadata.taints[{at}]"
            key, effect = taint.get("key", ""), taint.get("effect", "")
            causes += [wrong(f"{field}.key", key, message) for message in qualified_name(key)]
            if not effect:
                causes.append(required(f"{field}.effect"))
            elif effect not in _EFFECTS:
                causes.append(unsupported(f"{field}.effect", effect, _EFFECTS))
            if (key, effect) in seen:
                causes.append(wrong(field, taint, "taints must be unique by key and effect pair"))
            seen.add((key, effect))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        before = old.get("spec", {}).get("podCIDR")
        if before and new.get("spec", {}).get("podCIDR") != before:
            text = 'node updates may not change podCIDR except from "" to valid'
            causes.append(disallowed("spec.podCIDRs", text))
        return causes
