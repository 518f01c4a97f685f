"""Kinds that are only stored: nothing here acts on them, so only their names and types are checked."""

from __future__ import annotations

from gpu_runtime.local.apiserver.names import path_segment
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategy import Strategy, bump_generation

_RBAC = "rbac.authorization.k8s.io"


class ServiceAccountStrategy(Strategy):
    returns_deleted = True


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for rule in [*spec.get("ingress", []), *spec.get("egress", [])]:
            for port in rule.get("ports", []):
                port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


class EndpointSliceStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        for port in obj.get("ports", []):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_update(self, new: Object, old: Object) -> None:
        def desired(one: Object) -> Object:
            return {**one, "metadata": one["metadata"].get("labels")}

        if desired(new) != desired(old):
            bump_generation(new, old)


class BudgetStrategy(Strategy):
    name_rule = staticmethod(path_segment)
    bare_finalizers = True
    rechecks_metadata = False
    has_generation = True
    has_status = True
    unconditional_update = False


class RoleStrategy(Strategy):
    """There is one administrator: roles and their bindings have no effect."""

    name_rule = staticmethod(path_segment)
    create_on_update = True


class BindingStrategy(RoleStrategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("roleRef", {}).setdefault("apiGroup", _RBAC)
        for subject in obj.get("subjects", []):
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", _RBAC)
