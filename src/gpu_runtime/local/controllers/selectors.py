"""Label selectors: which objects an owner means."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runtime.local.kinds.wire import LabelSelector, Requirement


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether the labels fit; an empty selector of an owner fits nothing, which is what its API promises."""
    if not selector.matchLabels and not selector.matchExpressions:
        return False
    return all(labels.get(key) == value for key, value in selector.matchLabels.items()) and all(
        holds(each, labels) for each in selector.matchExpressions
    )


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one requirement fits."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _number(value) > _number(requirement.values[0]) if _numeric(value) else False
        case "Lt":
            return _number(value) < _number(requirement.values[0]) if _numeric(value) else False
    return False


def _numeric(value: str | None) -> bool:
    return value is not None and value.lstrip("-").isdigit()


def _number(value: str | None) -> int:
    return int(value or 0)
