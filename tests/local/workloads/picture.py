"""How a namespace looks at the end of a scenario: states, conditions, reasons and events, without what is random."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from local.workloads.world import Document, World

KINDS = ("Deployment", "ReplicaSet", "Pod", "Job", "PersistentVolumeClaim", "EndpointSlice", "ResourceQuota")
WORDS_OF_OTHERS = {"ErrImagePull", "ImagePullBackOff", "RunContainerError", "StartError", "ContainerCannotRun"}
"""Reasons whose messages are a registry's or a container engine's own."""
# The real server checks its Service addresses now and then, and one that it is just giving out looks lost to it.
REPAIRS = {"ClusterIPNotAllocated", "IPAddressNotAllocated"}
NOISE = REPAIRS | {
    "Pulling",
    "SandboxChanged",
    "FailedMount",
    "Failed",
    "FailedToRetrieveImagePullSecret",
    "DNSConfigForming",
}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
_RESTARTS_AFTER = re.compile(r"back-off [0-9a-z.]+ restarting")


def picture(world: World) -> Document:
    """What is compared between clusters."""
    objects = {kind: world.list(kind) for kind in KINDS}
    mask = Mask(world, objects)
    shown: Document = {}
    for kind, found in objects.items():
        views = sorted((mask.all(view(kind, obj)) for obj in found), key=lambda one: json.dumps(one, sort_keys=True))
        if views:
            shown[kind] = views
    shown["events"] = sorted({mask.text(line) for line in events(world)})
    return shown


def events(world: World) -> Iterable[str]:
    for event in world.list("Event"):
        if event["reason"] in NOISE or event["message"].startswith("(combined from similar events)"):
            continue
        about = event["involvedObject"]
        said = event["message"]
        if event["reason"] == "BackOff":
            said = said.partition(" restarting ")[0].partition(" pulling ")[0]
        if event["reason"] == "Unhealthy":
            said = said.partition(": ")[0]
        yield f"{about['kind']} {about['name']}: {event['type']} {event['reason']}: {said}"


class Mask:
    """Replaces names that the cluster made up by what they stand for."""

    def __init__(self, world: World, objects: dict[str, list[Document]]) -> None:
        self._namespace, self._provisioner = world.namespace, world.provisioner
        self._names: dict[str, str] = {node["metadata"]["name"]: "NODE" for node in world.list("Node")}
        sets = sorted(objects["ReplicaSet"], key=_revision)
        for number, found in enumerate(sets, 1):
            if digest := found["metadata"].get("labels", {}).get("pod-template-hash"):
                self._names[digest] = f"HASH{number}"
        self._generated = {
            obj["metadata"]["generateName"]
            for found in objects.values()
            for obj in found
            if "generateName" in obj["metadata"]
        }
        self._generated |= {f"{one['metadata']['name']}-" for one in (*objects["Job"], *objects["ReplicaSet"])}
        self._generated |= {f"{one['metadata']['name']}-" for one in world.list("Service")}
        # Owners that are gone are known by what was said about them.
        about = [event["involvedObject"] for event in world.list("Event")]
        self._generated |= {f"{one['name']}-" for one in about if one["kind"] in {"ReplicaSet", "Job"}}

    def text(self, text: str) -> str:
        for prefix in sorted(self._generated, key=len, reverse=True):
            text = re.sub(re.escape(prefix) + r"[a-z0-9]{5}\b", f"{prefix}RANDOM", text)
        for name, shown in self._names.items():
            text = re.sub(rf"\b{re.escape(name)}\b", shown, text)
        text = text.replace(self._namespace, "NAMESPACE").replace(self._provisioner, "PROVISIONER")
        text = _RESTARTS_AFTER.sub("back-off restarting", _ADDRESS.sub("ADDRESS", _UID.sub("UID", text)))
        # A set that is gone left its name in events.
        return re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-HASH", text)

    def all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.all(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.all(each) for each in value]
        return value


def _revision(found: Document) -> int:
    return int(found["metadata"].get("annotations", {}).get("deployment.kubernetes.io/revision", 0))


def view(kind: str, obj: Document) -> Document:
    """The part of an object that must be the same everywhere."""
    metadata = obj["metadata"]
    shown: Document = {"name": metadata["name"]}
    if owners := metadata.get("ownerReferences"):
        shown["owners"] = [f"{one['kind']} {one['name']}" for one in owners]
    if metadata.get("finalizers"):
        shown["finalizers"] = sorted(metadata["finalizers"])
    if "deletionTimestamp" in metadata:
        shown["deleting"] = True
    return {**shown, **VIEWS[kind](obj)}


def _replicated(obj: Document) -> Document:
    annotations = obj["metadata"].get("annotations", {})
    status = {key: value for key, value in obj.get("status", {}).items() if key not in {"conditions", "collisionCount"}}
    if "observedGeneration" in status:
        # How many writes it took is nobody's business; that the last one was seen is.
        status["observedGeneration"] = status["observedGeneration"] == obj["metadata"]["generation"]
    return {
        "revision": annotations.get("deployment.kubernetes.io/revision"),
        "history": annotations.get("deployment.kubernetes.io/revision-history"),
        "replicas": obj["spec"]["replicas"],
        "status": status,
        "conditions": _conditions(obj),
    }


def _conditions(obj: Document) -> dict[str, list[str]]:
    return {
        one["type"]: [one["status"], one.get("reason", ""), one.get("message", "")]
        for one in sorted(obj.get("status", {}).get("conditions", []), key=lambda one: str(one["type"]))
    }


def _pod(obj: Document) -> Document:
    status = obj.get("status", {})
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return {
        "labels": obj["metadata"].get("labels", {}),
        "node": obj["spec"].get("nodeName", ""),
        "phase": status.get("phase"),
        "reason": status.get("reason", ""),
        "message": status.get("message", ""),
        "quality": status.get("qosClass"),
        "conditions": _conditions(obj),
        "containers": {one["name"]: _container(one) for one in containers},
    }


def _container(status: Document) -> Document:
    return {
        "ready": status["ready"],
        "started": status.get("started"),
        "restarted": status["restartCount"] > 0,
        "state": _state(status["state"]),
        "last": _state(status.get("lastState", {})),
    }


def _state(state: Document) -> Document:
    shown = {}
    for name, found in state.items():
        kept = {key: value for key, value in found.items() if key in {"reason", "message", "exitCode", "signal"}}
        if kept.get("reason") in WORDS_OF_OTHERS:
            kept.pop("message", None)
        shown[name] = kept
    return shown


def _job(obj: Document) -> Document:
    status = {key: value for key, value in obj.get("status", {}).items() if not key.endswith("Time")}
    status.pop("conditions", None)
    timed = sorted(key for key in obj.get("status", {}) if key.endswith("Time"))
    return {"status": status, "times": timed, "conditions": _conditions(obj)}


def _claim(obj: Document) -> Document:
    status = {key: value for key, value in obj.get("status", {}).items() if key != "conditions"}
    mine = [key for key in obj["metadata"].get("annotations", {}) if key.startswith("pv.kubernetes.io/")]
    conditions = _conditions(obj)
    return {
        **({"conditions": conditions} if conditions else {}),
        "class": obj["spec"].get("storageClassName"),
        "volume": bool(obj["spec"].get("volumeName")),
        "annotations": sorted(mine),
        "status": status,
    }


def _endpoints(obj: Document) -> Document:
    endpoints = [
        {
            "conditions": one["conditions"],
            "target": one.get("targetRef", {}).get("name"),
            "node": one.get("nodeName"),
            "addresses": len(one["addresses"]),
        }
        for one in obj.get("endpoints") or []
    ]
    return {"endpoints": sorted(endpoints, key=str), "ports": obj.get("ports") or [], "family": obj["addressType"]}


def _quota(obj: Document) -> Document:
    return {"status": obj.get("status", {})}


VIEWS: dict[str, Callable[[Document], Document]] = {
    "Deployment": _replicated,
    "ReplicaSet": _replicated,
    "Pod": _pod,
    "Job": _job,
    "PersistentVolumeClaim": _claim,
    "EndpointSlice": _endpoints,
    "ResourceQuota": _quota,
}
