"""Validates affinity and label selectors."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.errors import Cause, disallowed, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import label_causes, label_value, qualified_name
from gpu_runtime.local.apiserver.records import Object

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def selector_causes(selector: Object, field: str) -> list[Cause]:
    """A LabelSelector."""
    causes = label_causes(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for at, one in enumerate(selector.get("matchExpressions") or []):
        causes += _expression(one, f"{field}.matchExpressions[{at}]")
    return causes


def _expression(one: Object, field: str, *, ordered: bool = False) -> list[Cause]:
    """One label expression; `ordered` allows Gt and Lt, which only node labels have."""
    causes: list[Cause] = []
    operator, values = one.get("operator", ""), one.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(disallowed(f"{field}.values", text))
    elif ordered and operator in ("Gt", "Lt"):
        if len(values) != 1:
            causes.append(required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        causes.append(wrong(f"{field}.operator", operator, "not a valid selector operator"))
    causes += [wrong(f"{field}.key", one.get("key", ""), message) for message in qualified_name(one.get("key", ""))]
    for at, value in enumerate(values):
        causes += [wrong(f"{field}.values[{at}]", value, message) for message in label_value(value)]
    return causes


def affinity_causes(affinity: Object, field: str) -> list[Cause]:
    causes = []
    node = affinity.get("nodeAffinity")
    if node is not None:
        causes += _node_affinity(node, f"{field}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name) is not None:
            causes += _pod_affinity(affinity[name], f"{field}.{name}")
    return causes


def _node_affinity(node: Object, field: str) -> list[Cause]:
    causes = []
    if node.get(_REQUIRED) is not None:
        causes += node_selector_causes(node[_REQUIRED], f"{field}.{_REQUIRED}")
    for at, one in enumerate(node.get(_PREFERRED) or []):
        inside = f"{field}.{_PREFERRED}[{at}]"
        causes += _weight(one, inside) + _term(one.get("preference") or {}, f"{inside}.preference")
    return causes


def node_selector_causes(selector: Object, field: str) -> list[Cause]:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    return [cause for at, term in enumerate(terms) for cause in _term(term, f"{field}.nodeSelectorTerms[{at}]")]


def _weight(one: Object, field: str) -> list[Cause]:
    if 1 <= one.get("weight", 0) <= 100:
        return []
    return [wrong(f"{field}.weight", one.get("weight", 0), "must be in the range 1-100")]


def _term(term: Object, field: str) -> list[Cause]:
    causes = []
    for at, one in enumerate(term.get("matchExpressions") or []):
        causes += _expression(one, f"{field}.matchExpressions[{at}]", ordered=True)
    for at, one in enumerate(term.get("matchFields") or []):
        causes += _field_expression(one, f"{field}.matchFields[{at}]")
    return causes


def _field_expression(one: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    operator, values = one.get("operator", ""), one.get("values") or []
    if operator not in ("In", "NotIn"):
        causes.append(wrong(f"{field}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{field}.values", text))
    if one.get("key") != "metadata.name":
        causes.append(wrong(f"{field}.key", one.get("key", ""), "not a valid field selector key"))
    return causes


def _pod_affinity(affinity: Object, field: str) -> list[Cause]:
    causes = []
    for at, term in enumerate(affinity.get(_REQUIRED) or []):
        causes += _pod_term(term, f"{field}.{_REQUIRED}[{at}]")
    for at, one in enumerate(affinity.get(_PREFERRED) or []):
        inside = f"{field}.{_PREFERRED}[{at}]"
        causes += _weight(one, inside) + _pod_term(one.get("podAffinityTerm") or {}, f"{inside}.podAffinityTerm")
    return causes


def _pod_term(term: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if term.get("labelSelector") is not None:
        causes += selector_causes(term["labelSelector"], f"{field}.labelSelector")
    key: Any = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    return causes + [wrong(f"{field}.topologyKey", key, message) for message in qualified_name(key)]


def chosen(field: str, value: Any, allowed: list[str]) -> list[Cause]:
    """Causes for a value that is not one of `allowed`."""
    return [] if value in allowed else [unsupported(field, value if value is not None else "", allowed)]
