"""Deployments, ReplicaSets and Jobs."""

from __future__ import annotations

import re

from gpu_runtime.local.apiserver.errors import Cause, disallowed, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import annotation_causes, label_causes
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.selectors import selects
from gpu_runtime.local.apiserver.strategies.affinity import selector_causes
from gpu_runtime.local.apiserver.strategies.pod_defaults import default_template
from gpu_runtime.local.apiserver.strategies.pod_validation import pod_spec_causes
from gpu_runtime.local.apiserver.strategy import Strategy, keep

_NOT_NEGATIVE = "must be greater than or equal to 0"


def not_negative(spec: Object, names: tuple[str, ...], field: str) -> list[Cause]:
    return [wrong(f"{field}.{name}", spec[name], _NOT_NEGATIVE) for name in names if (spec.get(name) or 0) < 0]


def template_causes(template: Object, field: str) -> list[Cause]:
    metadata = template.get("metadata", {})
    causes = label_causes(metadata.get("labels") or {}, f"{field}.labels")
    causes += annotation_causes(metadata.get("annotations") or {}, f"{field}.annotations")
    return causes + pod_spec_causes(template.get("spec", {}), f"{field}.spec")


def _selected_template(spec: Object, causes: list[Cause]) -> None:
    """Checks that the selector exists, is not empty, and selects the template's labels."""
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        found = selector_causes(selector, "spec.selector")
        causes += found
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            causes.append(wrong("spec.selector", selector, "empty selector is invalid for deployment"))
        if found:
            # An invalid selector cannot be compared with the labels.
            causes.append(wrong("spec.selector", selector, "invalid label selector"))
            return
    template = spec.get("template", {})
    labels = template.get("metadata", {}).get("labels") or {}
    if not selects(selector, labels):
        causes.append(wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))


def _always_restarting(spec: Object) -> list[Cause]:
    causes = template_causes(spec.get("template", {}), "spec.template")
    pod = spec.get("template", {}).get("spec", {})
    if pod.get("restartPolicy") != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        causes.append(
            disallowed(
                "spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in ReplicaSet is not Supported"
            )
        )
    return causes


class _ReplicatedStrategy(Strategy):
    """Kinds that keep a number of pods and find them by an immutable selector."""

    rechecks_metadata = False
    has_generation = True
    has_status = True

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            causes.append(immutable("spec.selector", new["spec"].get("selector")))
        return causes


class ReplicaSetStrategy(_ReplicatedStrategy):
    fields = ("status.replicas",)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec.setdefault("template", {}))

    def prepare_create(self, obj: Object, now: str) -> None:
        super().prepare_create(obj, now)
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = not_negative(spec, ("replicas", "minReadySeconds"), "spec")
        _selected_template(spec, causes)
        return causes + _always_restarting(spec)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return replica_status_causes(new.get("status", {}), "fullyLabeledReplicas")


def replica_status_causes(status: Object, first: str) -> list[Cause]:
    """Counts that are not negative and not above the total; `first` is the count that only this kind has."""
    counts = (first, "readyReplicas", "availableReplicas")
    causes = not_negative(status, ("replicas", *counts, "observedGeneration"), "status")
    total = status.get("replicas", 0)
    for name in counts:
        if status.get(name, 0) > total:
            causes.append(wrong(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas"))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = "cannot be greater than readyReplicas"
        causes.append(wrong("status.availableReplicas", status["availableReplicas"], text))
    return causes


class DeploymentStrategy(_ReplicatedStrategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        default_template(spec.setdefault("template", {}))

    def prepare_status(self, new: Object, old: Object, now: str) -> None:
        super().prepare_status(new, old, now)
        keep(new["metadata"], old["metadata"], "labels")

    def changed(self, new: Object, old: Object) -> bool:
        # The real server counts annotations of a Deployment as desired state.
        return bool(
            new["spec"] != old["spec"] or new["metadata"].get("annotations") != old["metadata"].get("annotations")
        )

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = not_negative(spec, ("replicas",), "spec")
        _selected_template(spec, causes)
        causes += _always_restarting(spec)
        causes += _rollout(spec.get("strategy", {}), "spec.strategy")
        causes += not_negative(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec")
        deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
        if deadline is not None and deadline <= ready:
            text = "must be greater than minReadySeconds"
            causes.append(wrong("spec.progressDeadlineSeconds", deadline, text))
        return causes

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return replica_status_causes(new.get("status", {}), "updatedReplicas")


def _rollout(strategy: Object, field: str) -> list[Cause]:
    kind = strategy.get("type", "")
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [disallowed(f"{field}.rollingUpdate", text)] if rolling is not None else []
    if kind != "RollingUpdate":
        return [unsupported(field, kind, ["Recreate", "RollingUpdate"])]
    if rolling is None:
        return [required(f"{field}.rollingUpdate", "this should be defaulted and never be nil")]
    inside = f"{field}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = count_or_share(unavailable, f"{inside}.maxUnavailable") + count_or_share(surge, f"{inside}.maxSurge")
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        causes.append(wrong(f"{inside}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    if _share(unavailable) > 100:
        causes.append(wrong(f"{inside}.maxUnavailable", unavailable, "must not be greater than 100%"))
    return causes


def count_or_share(value: int | str, field: str) -> list[Cause]:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        if re.fullmatch(r"[0-9]+%", value):
            return []
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%', or '93%', regex used for validation is '[0-9]+%')"
        )
        return [wrong(field, value, text)]
    return [wrong(field, value, _NOT_NEGATIVE)] if value < 0 else []


def _share(value: int | str) -> int:
    return int(value[:-1]) if isinstance(value, str) and re.fullmatch(r"[0-9]+%", value) else 0


def _amount(value: int | str) -> int:
    return _share(value) if isinstance(value, str) else value
