"""Kinds with few rules: ConfigMaps, Secrets, Events, Leases, ServiceAccounts, quotas, priority classes, budgets."""

from __future__ import annotations

import base64

from gpu_runtime.local.apiserver.errors import Cause, disallowed, immutable, required, wrong
from gpu_runtime.local.apiserver.names import config_key, path_segment, qualified_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategy import Strategy
from gpu_runtime.local.quantities import nanos

_LARGEST = 1024 * 1024


class ConfigMapStrategy(Strategy):
    def validate(self, obj: Object) -> list[Cause]:
        causes = []
        text, binary = obj.get("data", {}), obj.get("binaryData", {})
        for key in text:
            causes += [wrong(f"data[{key}]", key, message) for message in config_key(key)]
            if key in binary:
                causes.append(wrong(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            causes += [wrong(f"binaryData[{key}]", key, message) for message in config_key(key)]
        if sum(len(value) for value in [*text.values(), *binary.values()]) > _LARGEST:
            causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {_LARGEST} bytes", "[]"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        if old.get("immutable"):
            if not new.get("immutable"):
                causes.append(disallowed("immutable", "field is immutable when `immutable` is set"))
            causes += [
                disallowed(field, "field is immutable when `immutable` is set")
                for field in ("data", "binaryData")
                if new.get(field) != old.get(field)
            ]
        return causes + self.validate(new)


_NEEDED_KEYS = {
    "kubernetes.io/dockerconfigjson": [".dockerconfigjson"],
    "kubernetes.io/dockercfg": [".dockercfg"],
    "kubernetes.io/tls": ["tls.crt", "tls.key"],
    "kubernetes.io/ssh-auth": ["ssh-privatekey"],
}


class SecretStrategy(Strategy):
    fields = ("type",)

    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        for key, value in obj.pop("stringData", {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()

    def validate(self, obj: Object) -> list[Cause]:
        causes = []
        found = obj.get("data", {})
        for key in found:
            causes += [wrong(f"data[{key}]", key, message) for message in config_key(key)]
        if sum(len(value) * 3 // 4 for value in found.values()) > _LARGEST:
            causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {_LARGEST} bytes", "data"))
        causes += [required(f"data[{key}]") for key in _NEEDED_KEYS.get(obj["type"], []) if key not in found]
        if obj["type"] == "kubernetes.io/basic-auth" and not {"username", "password"} & set(found):
            causes += [required("data[username]"), required("data[password]")]
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        if new["type"] != old.get("type"):
            causes.append(immutable("type", new["type"]))
        if old.get("immutable"):
            if not new.get("immutable"):
                causes.append(disallowed("immutable", "field is immutable when `immutable` is set"))
            if new.get("data") != old.get("data"):
                causes.append(disallowed("data", "field is immutable when `immutable` is set"))
        return causes + self.validate(new)


class EventStrategy(Strategy):
    name_rule = staticmethod(path_segment)
    bare_finalizers = True
    rechecks_metadata = False
    create_on_update = True
    fields = (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    )

    def validate(self, obj: Object) -> list[Cause]:
        about = obj.get("involvedObject", {}).get("namespace", "")
        where = obj["metadata"].get("namespace", "")
        if about != where and not (not about and where == "default"):
            return [wrong("involvedObject.namespace", about, "does not match event.namespace")]
        return []


class LeaseStrategy(Strategy):
    bare_finalizers = True
    rechecks_metadata = False
    create_on_update = True
    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec", {})
        causes = []
        seconds, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            causes.append(wrong("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if moves is not None and moves < 0:
            causes.append(wrong("spec.leaseTransitions", moves, "must be greater than or equal to 0"))
        return causes


_WHOLE = {
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
}
_QUOTA_RESOURCES = _WHOLE | {
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
}
_SCOPES = ["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"]


class QuotaStrategy(Strategy):
    rechecks_metadata = False
    has_status = True
    returns_deleted = True

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        obj.pop("status", None)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec", {})
        return hard_causes(spec.get("hard", {}), "spec.hard") + _scope_causes(spec)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        now, before = new.get("spec", {}), old.get("spec", {})
        if set(now.get("scopes", [])) != set(before.get("scopes", [])):
            causes.append(immutable("spec.scopes", now.get("scopes")))
        return causes

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        status = new.get("status", {})
        return hard_causes(status.get("hard", {}), "status.hard") + hard_causes(status.get("used", {}), "status.used")


def hard_causes(hard: Object, field: str) -> list[Cause]:
    causes = []
    for name, amount in hard.items():
        inside = f"{field}[{name}]"
        causes += [wrong(inside, name, message) for message in qualified_name(name)]
        if (
            "/" not in name
            and name not in _QUOTA_RESOURCES
            and not name.startswith(("requests.hugepages-", "hugepages-"))
        ):
            causes.append(wrong(inside, name, "must be a standard resource type or fully qualified"))
            causes.append(wrong(inside, name, "must be a standard resource for quota"))
        if nanos(amount) < 0:
            causes.append(wrong(inside, amount, "must be greater than or equal to 0"))
        elif nanos(amount) % 10**9 and (name in _WHOLE or ("/" in name)):
            causes.append(wrong(inside, amount, "must be an integer"))
    return causes


def _scope_causes(spec: Object) -> list[Cause]:
    scopes = spec.get("scopes", [])
    causes = []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(wrong("spec.scopes", scopes, "unsupported scope"))
        elif scope == "BestEffort" and any(name != "pods" for name in spec.get("hard", {})):
            causes.append(wrong("spec.scopes", scopes, "unsupported scope applied to resource"))
    if {"BestEffort", "NotBestEffort"} <= set(scopes) or {"Terminating", "NotTerminating"} <= set(scopes):
        causes.append(wrong("spec.scopes", scopes, "conflicting scopes"))
    return causes


class PriorityClassStrategy(Strategy):
    rechecks_metadata = False
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def changed(self, new: Object, old: Object) -> bool:  # noqa: ARG002
        return False

    def validate(self, obj: Object) -> list[Cause]:
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        causes = []
        if name.startswith("system-"):
            if name not in ("system-node-critical", "system-cluster-critical"):
                text = "priority class names with 'system-' prefix are reserved for system use only"
                causes.append(disallowed("metadata.name", text))
        elif value > 10**9:
            causes.append(disallowed("value", "maximum allowed value of a user defined priority is 1000000000"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        if new.get("value", 0) != old.get("value", 0):
            causes.append(disallowed("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(immutable("preemptionPolicy", new.get("preemptionPolicy")))
        return causes
