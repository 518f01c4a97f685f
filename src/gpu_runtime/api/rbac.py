"""Permissions as declarations, and the RBAC manifests made from them. Importing this module loads no product types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_runtime.api.kind import Kind
    from gpu_runtime.api.meta.object import Object

Manifest = dict[str, object]

_API = "rbac.authorization.k8s.io/v1"
LEADER_ELECTION_LEASE = "9d4c4758.lokiwager.io"
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete")


@dataclass(frozen=True)
class Rule:
    """Allows `verbs` on `resources` of one API group. `names` restricts the rule to single objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Permissions:
    """What one process may do: in all namespaces, and in single namespaces."""

    process: str
    cluster: tuple[Rule, ...] = ()
    namespaces: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)


def leader_election(lease: str) -> tuple[Rule, ...]:
    """Rules to elect a leader through one Lease. `create` has its own rule: RBAC cannot restrict it to a name."""
    return (
        Rule("coordination.k8s.io", ("leases",), ("create",)),
        Rule("coordination.k8s.io", ("leases",), ("get", "update", "patch"), names=(lease,)),
        Rule("", ("events",), ("create", "patch")),
        Rule("events.k8s.io", ("events",), ("create", "patch")),
    )


def cluster_role(name: str, rules: tuple[Rule, ...]) -> Manifest:
    return {
        "apiVersion": _API,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [_rule(rule) for rule in rules],
    }


def role(name: str, namespace: str, rules: tuple[Rule, ...]) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": _API, "kind": "Role", "metadata": metadata, "rules": [_rule(rule) for rule in rules]}


def process_manifests(permissions: Permissions, prefix: str, home: str) -> list[Manifest]:
    """The ServiceAccount of a process in namespace `home`, with its roles and role bindings."""
    name = f"{prefix}-{permissions.process}"
    account: Manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}
    made = [account]
    if permissions.cluster:
        made += [cluster_role(name, permissions.cluster), _binding("ClusterRole", name, home)]
    for namespace, rules in sorted(permissions.namespaces.items()):
        made += [role(name, namespace, rules), _binding("Role", name, home, namespace)]
    return made


def kind_roles(kind: Kind[Object], prefix: str) -> dict[str, Manifest]:
    """Roles of one kind for users: admin (everything), editor (create and change) and viewer (read)."""
    status = (Rule(kind.group, (f"{kind.plural}/status",), ("get",)),) if kind.status_subresource else ()
    scale = Rule(kind.group, (f"{kind.plural}/scale",), ("get", "update", "patch"))
    verbs = {"admin": ("*",), "editor": (*READ, *WRITE), "viewer": READ}
    roles = {}
    for audience, allowed in verbs.items():
        rules = (Rule(kind.group, (kind.plural,), allowed), *status)
        if kind.scale and audience != "viewer":
            rules = (*rules, scale)
        roles[audience] = cluster_role(f"{prefix}-{kind.singular}-{audience}", rules)
    return roles


def _rule(rule: Rule) -> Manifest:
    written: Manifest = {"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)}
    if rule.names:
        written["resourceNames"] = list(rule.names)
    return written


def _binding(role_kind: str, name: str, home: str, namespace: str = "") -> Manifest:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": _API,
        "kind": f"{role_kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
    }
