"""Pods."""

from __future__ import annotations

import copy
import ipaddress

from gpu_runtime.local.apiserver.errors import Cause, disallowed, wrong
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.pod_defaults import containers, default_pod
from gpu_runtime.local.apiserver.strategies.pod_validation import pod_spec_causes
from gpu_runtime.local.apiserver.strategy import Strategy, bump_generation, keep
from gpu_runtime.local.quantities import nanos

_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    has_generation = True
    has_status = True
    returns_deleted = True
    fields = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    )

    def default(self, obj: Object) -> None:
        default_pod(obj)

    def prepare_create(self, obj: Object, now: str) -> None:
        super().prepare_create(obj, now)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            gated = {"type": "PodScheduled", "status": "False", "lastTransitionTime": now, "reason": "SchedulingGated"}
            text = "Scheduling is blocked due to non-empty scheduling gates"
            obj["status"]["conditions"] = [{**gated, "message": text}]

    def prepare_status(self, new: Object, old: Object, now: str) -> None:  # noqa: ARG002
        keep(new, old, "spec")
        if (new.get("status") or {}).get("podIP") and not new["status"].get("podIPs"):
            new["status"]["podIPs"] = [{"ip": new["status"]["podIP"]}]
        keep(new["metadata"], old["metadata"], "ownerReferences")
        if "qosClass" in old.get("status", {}):
            new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])

    def validate(self, obj: Object) -> list[Cause]:
        return pod_spec_causes(obj.get("spec", {}), "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        now, before = new["spec"], old["spec"]
        for field in ("containers", "initContainers"):
            if len(now.get(field, [])) != len(before.get(field, [])):
                return [*causes, disallowed(f"spec.{field}", "pod updates may not add or remove containers")]
        causes += _deadline(now, before) + _tolerations(now, before)
        if _fixed(now) != _fixed(before):
            causes.append(disallowed("spec", _MAY_CHANGE))
        return causes

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        if (found := new.get("status", {}).get("qosClass")) != old.get("status", {}).get("qosClass"):
            causes.append(wrong("status.qosClass", found, "field is immutable"))
        for field in ("podIPs", "hostIPs"):
            for at, one in enumerate(new.get("status", {}).get(field, [])):
                causes += address_causes(one.get("ip", ""), f"status.{field}[{at}]")
        return causes

    def grace(self, obj: Object, asked: int | None) -> int:
        spec, phase = obj["spec"], obj.get("status", {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        seconds = asked if asked is not None else spec.get("terminationGracePeriodSeconds")
        return 30 if seconds is None else max(seconds, 0)


def address_causes(address: str, field: str) -> list[Cause]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return [wrong(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def bind(pod: Object, node: str, now: str) -> None:
    """Assigns a pod to a node."""
    before = copy.deepcopy(pod)
    pod["spec"]["nodeName"] = node
    conditions = [one for one in pod["status"].get("conditions") or [] if one["type"] != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
    pod["status"]["conditions"] = conditions
    bump_generation(pod, before)


def disrupt(pod: Object, now: str) -> None:
    """Sets the DisruptionTarget condition of an evicted pod."""
    conditions = [one for one in pod["status"].get("conditions") or [] if one["type"] != "DisruptionTarget"]
    reason, text = "EvictionByEvictionAPI", "Eviction API: evicting"
    found = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    pod["status"]["conditions"] = [*conditions, {**found, "reason": reason, "message": text}]


def _fixed(spec: Object) -> Object:
    """The fields of the spec that no update may change."""
    found = copy.deepcopy(spec)
    for container in containers(found):
        container.pop("image", None)
    for name in ("activeDeadlineSeconds", "tolerations"):
        found.pop(name, None)
    return found


def _deadline(now: Object, before: Object) -> list[Cause]:
    field = "spec.activeDeadlineSeconds"
    new, old = now.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if old is None:
        return []
    if new is None:
        return [wrong(field, None, "must not update from a positive integer to nil value")]
    if new > old:
        return [wrong(field, new, f"must be less than or equal to previous value {old}")]
    return []


def _untimed(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _tolerations(now: Object, before: Object) -> list[Cause]:
    kept = [_untimed(one) for one in now.get("tolerations", [])]
    if all(_untimed(one) in kept for one in before.get("tolerations", [])):
        return []
    return [disallowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort."""
    found = [container.get("resources") or {} for container in containers(spec)]
    if spec.get("resources"):
        found = [spec["resources"]]
    asked = [
        nanos(amount)
        for resources in found
        for part in ("requests", "limits")
        for name, amount in (resources.get(part) or {}).items()
        if name in ("cpu", "memory")
    ]
    if not any(asked):
        return "BestEffort"
    for resources in found:
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or nanos(requests.get(name, "0")) != nanos(limits[name]):
                return "Burstable"
    return "Guaranteed"
