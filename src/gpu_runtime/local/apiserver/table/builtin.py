"""The rows of built-in kinds, cell by cell as the columns of the data file ask."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.selectors import selector_text
from gpu_runtime.local.apiserver.table.durations import human, since
from gpu_runtime.local.apiserver.table.pods import NONE, pod_cells

Cells = Callable[[Object, datetime], list[Any]]

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _age(obj: Object, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _simple(*values: Callable[[Object], Any]) -> Cells:
    """Name, some values, age."""
    return lambda obj, now: [_name(obj), *(value(obj) for value in values), _age(obj, now)]


def _phase(obj: Object) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def _containers(template: Object) -> list[Any]:
    found = template.get("spec", {}).get("containers") or []
    return [",".join(one["name"] for one in found), ",".join(one.get("image", "") for one in found)]


def selector_cell(selector: Object | None) -> str:
    return selector_text(selector) or NONE


def _node(obj: Object, now: datetime) -> list[Any]:
    status = obj.get("status", {})
    ready = next((one for one in status.get("conditions") or [] if one["type"] == "Ready"), None)
    words = ["Unknown"] if ready is None else ["Ready" if ready["status"] == "True" else "NotReady"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix)
    info = status.get("nodeInfo") or {}
    addresses = {one["type"]: one["address"] for one in status.get("addresses") or []}
    return [
        _name(obj),
        ",".join(words),
        ",".join(roles) or NONE,
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _deployment(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [ready, status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [_name(obj), *counts, _age(obj, now), *_containers(spec["template"]), selector_cell(spec.get("selector"))]


def _replica_set(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(obj), *counts, _age(obj, now), *_containers(spec["template"]), selector_cell(spec.get("selector"))]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    done = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        wanted = spec.get("parallelism", 0)
        completions = f"{done}/1 of {wanted}" if wanted > 1 else f"{done}/1"
    took = ""
    if status.get("startTime"):
        end = datetime.fromisoformat(status["completionTime"]) if status.get("completionTime") else now
        took = human((end - datetime.fromisoformat(status["startTime"])).total_seconds())
    cells = [_name(obj), _job_status(obj), completions, took, _age(obj, now)]
    return [*cells, *_containers(spec["template"]), selector_cell(spec.get("selector"))]


def _job_status(obj: Object) -> str:
    true = {one["type"] for one in obj.get("status", {}).get("conditions") or [] if one["status"] == "True"}
    if "Complete" in true or "Failed" in true:
        return "Complete" if "Complete" in true else "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if word in true), "Running")


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    ports = [f"{one['port']}/{one['protocol']}" for one in spec.get("ports") or []]
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        _name(obj),
        spec["type"],
        (spec.get("clusterIPs") or [NONE])[0],
        spec.get("externalName") or ",".join(spec.get("externalIPs") or []) or NONE,
        ",".join(ports) or NONE,
        _age(obj, now),
        selector or NONE,
    ]


def _event(obj: Object, now: datetime) -> list[Any]:
    first = since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if obj.get("series"):
        last, count = since(obj["series"].get("lastObservedTime"), now), obj["series"].get("count", 0)
    about = obj.get("involvedObject", {})
    kind = about.get("kind", "").lower()
    source = obj.get("source") or {}
    origin = [
        source.get("component") or obj.get("reportingComponent"),
        source.get("host") or obj.get("reportingInstance"),
    ]
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        ", ".join(filter(None, origin)),
        obj.get("message", "").strip(),
        first,
        count,
        _name(obj),
    ]


def _quota(obj: Object, now: datetime) -> list[Any]:
    status = obj.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    texts = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    requests = ", ".join(text for name, text in texts.items() if not name.startswith("limits."))
    limits = ", ".join(text for name, text in texts.items() if name.startswith("limits."))
    return [_name(obj), requests, limits, _age(obj, now)]


def _claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _access(status) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        _age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _access(holder: Object) -> str:
    modes = holder.get("accessModes") or []
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _volume(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    claim = spec.get("claimRef")
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        _access(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        obj.get("status", {}).get("reason", ""),
        _age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _few(items: list[str]) -> str:
    if not items:
        return "<unset>"
    return ",".join(items[:3]) + (f" + {len(items) - 3} more..." if len(items) > 3 else "")


def _slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(one.get("port") or one.get("name") or "*") for one in obj.get("ports") or []]
    addresses = [address for one in obj.get("endpoints") or [] for address in one.get("addresses") or []]
    return [_name(obj), obj.get("addressType", ""), _few(ports), _few(addresses), _age(obj, now)]


def _binding(obj: Object, now: datetime) -> list[Any]:
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in obj.get("subjects") or []:
        name = f"{one['namespace']}/{one['name']}" if one.get("namespace") else one["name"]
        found.get(one.get("kind", ""), []).append(name)
    reference = obj["roleRef"]
    cells = [_name(obj), f"{reference.get('kind')}/{reference.get('name')}", _age(obj, now)]
    return [*cells, *(", ".join(names) for names in found.values())]


def _created(obj: Object, _now: datetime) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _storage_class(obj: Object, now: datetime) -> list[Any]:
    annotations = obj["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    name = _name(obj) + (" (default)" if default else "")
    parts = [obj.get(key, "") for key in ("provisioner", "reclaimPolicy", "volumeBindingMode")]
    return [name, *parts, bool(obj.get("allowVolumeExpansion")), _age(obj, now)]


def _priority_class(obj: Object, now: datetime) -> list[Any]:
    value, default = obj.get("value", 0), bool(obj.get("globalDefault"))
    return [_name(obj), value, default, _age(obj, now), obj.get("preemptionPolicy", "")]


CELLS: dict[str, Cells] = {
    "configmaps": _simple(lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {})),
    "events": _event,
    "namespaces": _simple(lambda obj: obj.get("status", {}).get("phase", "")),
    "nodes": _node,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "pods": pod_cells,
    "resourcequotas": _quota,
    "secrets": _simple(lambda obj: obj.get("type", ""), lambda obj: len(obj.get("data") or {})),
    "serviceaccounts": _simple(),
    "services": _service,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "jobs.batch": _job,
    "leases.coordination.k8s.io": _simple(lambda obj: obj.get("spec", {}).get("holderIdentity", "")),
    "endpointslices.discovery.k8s.io": _slice,
    "networkpolicies.networking.k8s.io": _simple(lambda obj: selector_cell(obj["spec"].get("podSelector"))),
    "poddisruptionbudgets.policy": _simple(
        lambda obj: str(obj["spec"].get("minAvailable", "N/A")),
        lambda obj: str(obj["spec"].get("maxUnavailable", "N/A")),
        lambda obj: obj.get("status", {}).get("disruptionsAllowed", 0),
    ),
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "storageclasses.storage.k8s.io": _storage_class,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "roles.rbac.authorization.k8s.io": _created,
    "clusterroles.rbac.authorization.k8s.io": _created,
    "customresourcedefinitions.apiextensions.k8s.io": _created,
}
