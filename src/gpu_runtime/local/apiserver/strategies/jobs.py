"""Jobs."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.selectors import selects
from gpu_runtime.local.apiserver.strategies.affinity import selector_causes
from gpu_runtime.local.apiserver.strategies.pod_defaults import default_template
from gpu_runtime.local.apiserver.strategies.workloads import not_negative, template_causes
from gpu_runtime.local.apiserver.strategy import Strategy

_JOB_UID = "batch.kubernetes.io/controller-uid"


class JobStrategy(Strategy):
    has_generation = True
    orphans_by_default = True
    has_status = True
    fields = ("status.successful",)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.setdefault("template", {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)
        default_template(template)
        labels = template.get("metadata", {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = labels  # the same ones: those that a new Job generates come to both

    def prepare_create(self, obj: Object, now: str) -> None:
        super().prepare_create(obj, now)
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for name, value in _generated_labels(meta).items():
            labels.setdefault(name, value)
        selector = spec.setdefault("selector", {})
        selector.setdefault("matchLabels", {}).setdefault(_JOB_UID, meta["uid"])

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        names = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
        causes = _generated_selector(obj) + not_negative(spec, names, "spec")
        if "selector" not in spec:
            causes.append(required("spec.selector"))
        else:
            causes += selector_causes(spec["selector"], "spec.selector")
        if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
            causes.append(required("spec.completions", "when completion mode is Indexed"))
        if "podFailurePolicy" in spec and spec["podReplacementPolicy"] != "Failed":
            causes.append(unsupported("spec.podReplacementPolicy", spec["podReplacementPolicy"], ["Failed"]))
        template = spec["template"]
        labels = template.get("metadata", {}).get("labels") or {}
        if not selects(spec.get("selector"), labels):
            text = "`selector` does not match template `labels`"
            causes.append(wrong("spec.template.metadata.labels", labels, text))
        causes += template_causes(template, "spec.template")
        policy = template.get("spec", {}).get("restartPolicy", "")
        if policy == "Always":
            causes.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        now, before = new["spec"], old["spec"]
        fixed = ("completions", "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "template")
        changed = [name for name in fixed if now.get(name) != before.get(name)]
        return self.validate(new) + [immutable(f"spec.{name}", now.get(name)) for name in changed]


def _generated_labels(meta: Object) -> dict[str, str]:
    found = {"controller-uid": meta["uid"], "job-name": meta.get("name", "")}
    return found | {f"batch.kubernetes.io/{name}": value for name, value in found.items()}


def _generated_selector(obj: Object) -> list[Cause]:
    """A selector of the user's own without `manualSelector` would let two Jobs fight over pods."""
    spec, meta = obj["spec"], obj["metadata"]
    if spec.get("manualSelector") or "selector" not in spec:
        return []
    causes: list[Cause] = []
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    expected = _generated_labels(meta)
    for name, value in expected.items():
        field = f"spec.template.metadata.labels[{name}]"
        if name not in labels:
            causes.append(required(field, f"must be '{value}'"))
        elif labels[name] != value:
            causes.append(wrong(field, labels, f"must be '{value}'"))
    if not selects(spec["selector"], expected):
        causes.append(wrong("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return causes
