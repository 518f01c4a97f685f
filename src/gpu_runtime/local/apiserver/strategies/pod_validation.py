"""Validates pods and pod templates."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns_label, dns_subdomain, label_causes, qualified_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import affinity_causes, chosen
from gpu_runtime.local.apiserver.strategies.containers import container_causes, id_causes
from gpu_runtime.local.apiserver.strategies.seccomp import seccomp_causes
from gpu_runtime.local.apiserver.strategies.volumes import volume_causes


def pod_spec_causes(spec: Object, field: str) -> list[Cause]:
    """Everything wrong with a pod's or a template's spec."""
    causes, volumes = volume_causes(spec.get("volumes", []), f"{field}.volumes")
    causes += container_causes(spec, volumes, field)
    causes += _choices(spec, field)
    causes += label_causes(spec.get("nodeSelector", {}), f"{field}.nodeSelector")
    causes += _security(spec.get("securityContext") or {}, f"{field}.securityContext")
    causes += affinity_causes(spec.get("affinity") or {}, f"{field}.affinity")
    causes += _names(spec, field)
    for at, toleration in enumerate(spec.get("tolerations", [])):
        causes += _toleration(toleration, f"{field}.tolerations[{at}]")
    for at, gate in enumerate(spec.get("schedulingGates", [])):
        causes += [
            wrong(f"{field}.schedulingGates[{at}]", gate.get("name", ""), one)
            for one in qualified_name(gate.get("name", ""))
        ]
    for at, spread in enumerate(spec.get("topologySpreadConstraints", [])):
        causes += _spread(spread, f"{field}.topologySpreadConstraints[{at}]")
    return causes


def _choices(spec: Object, field: str) -> list[Cause]:
    causes = []
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        causes.append(required(f"{field}.dnsConfig.nameservers", text))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        causes.append(wrong(f"{field}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    if spec.get("preemptionPolicy") == "":
        causes.append(required(f"{field}.preemptionPolicy"))
    elif "preemptionPolicy" in spec:
        causes += chosen(f"{field}.preemptionPolicy", spec["preemptionPolicy"], ["Never", "PreemptLowerPriority"])
    return causes


def _names(spec: Object, field: str) -> list[Cause]:
    causes = []
    rules = {
        "serviceAccountName": dns_subdomain,
        "nodeName": dns_subdomain,
        "hostname": dns_label,
        "subdomain": dns_label,
        "priorityClassName": dns_subdomain,
        "runtimeClassName": dns_subdomain,
    }
    for name, rule in rules.items():
        if spec.get(name):
            causes += [wrong(f"{field}.{name}", spec[name], message) for message in rule(spec[name])]
    return causes


def _toleration(toleration: Object, field: str) -> list[Cause]:
    causes = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    if key:
        causes += [wrong(f"{field}.key", key, message) for message in qualified_name(key)]
    elif operator != "Exists":
        causes.append(
            wrong(
                f"{field}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(wrong(f"{field}.effect", toleration.get("effect", ""), text))
    if operator == "Exists" and toleration.get("value"):
        causes.append(wrong(f"{field}.operator", toleration, "value must be empty when `operator` is 'Exists'"))
    return causes


def _spread(spread: Object, field: str) -> list[Cause]:
    causes = []
    if spread.get("maxSkew", 0) <= 0:
        causes.append(wrong(f"{field}.maxSkew", spread.get("maxSkew", 0), "must be greater than zero"))
    if not spread.get("topologyKey"):
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    if not spread.get("whenUnsatisfiable"):
        causes.append(unsupported(f"{field}.whenUnsatisfiable", "", ["DoNotSchedule", "ScheduleAnyway"]))
    return causes


def _security(context: Object, field: str) -> list[Cause]:
    causes = id_causes(context, ("runAsUser", "runAsGroup", "fsGroup"), field)
    return causes + seccomp_causes(context.get("seccompProfile"), f"{field}.seccompProfile")
