"""Roles and their bindings: stored, checked, and without effect, since there is one administrator."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns_subdomain, path_segment
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategy import Strategy

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    name_rule = staticmethod(path_segment)
    create_on_update = True

    def __init__(self, *, cluster: bool) -> None:
        self._cluster = cluster

    def validate(self, obj: Object) -> list[Cause]:
        return [cause for at, rule in enumerate(obj.get("rules", [])) for cause in self._rule(rule, f"rules[{at}]")]

    def _rule(self, rule: Object, field: str) -> list[Cause]:
        causes = []
        if not rule.get("verbs"):
            causes.append(required(f"{field}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if not self._cluster:
                text = "namespaced rules cannot apply to non-resource URLs"
                causes.append(wrong(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(wrong(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text))
            return causes
        if not rule.get("apiGroups"):
            causes.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
        return causes


class BindingStrategy(Strategy):
    name_rule = staticmethod(path_segment)
    create_on_update = True

    def __init__(self, *, cluster: bool) -> None:
        self._cluster = cluster

    def default(self, obj: Object) -> None:
        obj.setdefault("roleRef", {}).setdefault("apiGroup", GROUP)
        for subject in obj.get("subjects", []):
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", GROUP)

    def validate(self, obj: Object) -> list[Cause]:
        reference = obj["roleRef"]
        causes = []
        if reference.get("apiGroup") != GROUP:
            causes.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), [GROUP]))
        kinds = ["ClusterRole"] if self._cluster else ["Role", "ClusterRole"]
        if reference.get("kind") not in kinds:
            causes.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
        if not reference.get("name"):
            causes.append(required("roleRef.name"))
        else:
            causes += [wrong("roleRef.name", reference["name"], message) for message in path_segment(reference["name"])]
        for at, subject in enumerate(obj.get("subjects", [])):
            causes += self._subject(subject, f"subjects[{at}]")
        return causes

    def _subject(self, subject: Object, field: str) -> list[Cause]:
        causes = []
        if not subject.get("name"):
            causes.append(required(f"{field}.name"))
        kind = subject.get("kind", "")
        if kind == "ServiceAccount":
            name = subject.get("name", "")
            causes += [wrong(f"{field}.name", name, message) for message in dns_subdomain(name)] if name else []
            if subject.get("apiGroup"):
                causes.append(unsupported(f"{field}.apiGroup", subject["apiGroup"], [""]))
            if self._cluster and not subject.get("namespace"):
                causes.append(required(f"{field}.namespace"))
        elif kind in ("User", "Group"):
            if subject.get("apiGroup") != GROUP:
                causes.append(unsupported(f"{field}.apiGroup", subject.get("apiGroup", ""), [GROUP]))
        else:
            causes.append(unsupported(f"{field}.kind", kind, ["ServiceAccount", "User", "Group"]))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        if new["roleRef"] != old.get("roleRef"):
            causes.append(wrong("roleRef", new["roleRef"], "cannot change roleRef"))
        return causes
