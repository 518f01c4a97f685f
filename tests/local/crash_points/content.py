"""What is in the cluster, in words that two runs share: names and ids that the server or a hash chose are masked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from equipment.judge import list_objects
from gpu_runtime.api.v1alpha1.annotations import FENCE
from kube.http.api import Places

Document = dict[str, Any]
Change = Counter[str]
"""Lines such as `made: CONTENT`, `changed: CONTENT` or `gone: CONTENT`, counted."""

BUILT_IN = {
    "/apis/apps/v1": ("deployments",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/api/v1": ("services", "pods", "events", "persistentvolumeclaims"),
}
GENERATED = ("Operation", "Pod")
STATUS = {  # of kinds that others write: the part that says whether all is done
    "Pod": ("phase",),
    "Deployment": ("replicas", "updatedReplicas", "availableReplicas"),
    "Service": (),
}
CHOSEN_BY_THE_SERVER = ("clusterIP", "clusterIPs", "nodePort", "pod-template-hash", "resourceVersion", "uid")
MASKS = (
    (re.compile(r"\bstock-[a-z0-9-]+-[a-z2-7]{26}\b"), "BATCH"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "uid of something gone"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "HASH"),
    (re.compile(r"image:\w+"), "image:N"),
    (re.compile(r"\bstock-\d+\b"), "stock-N"),  # which of the free stock is taken is a matter of chance
    (re.compile(r"\bfake-\d+\b"), "NODE"),
    (re.compile(r'([gG]eneration\\?"): \d+'), r"\1: N"),
    (re.compile(r'(generation\\":)\d+'), r"\1N"),
    (re.compile(r'(revision": ")\d+'), r"\1N"),
)


async def everything(world: Places) -> list[Document]:
    """All objects of a test's namespaces that an operation or a controller of ours may touch."""
    places = (world.system, world.stock, world.instance)
    paths = [
        f"{base}/namespaces/{place}/{kind}" for base, kinds in BUILT_IN.items() for kind in kinds for place in places
    ]
    return await list_objects(world.server, *world.paths, *paths)


def changed(before: list[Document], after: list[Document], world: Places, turn: int) -> Change:
    """What happened between two listings."""
    masks = _masks([*before, *after], world)
    old, new = (
        {each["metadata"]["uid"]: text for each in listed if (text := _text(each, masks, turn))}
        for listed in (before, after)
    )
    fates = [f"gone: {text}" for uid, text in old.items() if uid not in new]
    fates += [f"made: {text}" for uid, text in new.items() if uid not in old]
    fates += [f"changed: {text}" for uid, text in new.items() if uid in old and old[uid] != text]
    # The number of equal Events depends on timing, so each counts once.
    told = {fate for fate in fates if _is_event(fate)}
    return Change([*told, *(fate for fate in fates if not _is_event(fate))])


def difference(seen: Change, wanted: Change) -> str:
    """Lines that only `seen` has (+) or only `wanted` has (-)."""
    return "\n".join(["", *(f"+ {each}" for each in seen - wanted), *(f"- {each}" for each in wanted - seen)])


def _is_event(fate: str) -> bool:
    return fate.partition(": ")[2].startswith("Event ")


def _masks(listed: Iterable[Document], world: Places) -> dict[str, str]:
    masks = {world.system: "SYSTEM", world.stock: "STOCK", world.instance: "INSTANCE"}
    for each in listed:
        meta = each["metadata"]
        where = masks[meta["namespace"]].lower()
        masks[meta["uid"]] = f"uid of {each['kind']} in {where}"
        if each["kind"] in GENERATED or (each["kind"] == "GPUUnit" and meta["namespace"] == world.stock):
            masks[meta["name"]] = f"name of {each['kind']} in {where}"
    return masks


def _text(document: Document, masks: dict[str, str], turn: int) -> str:
    """The content of an object; empty for one that is not ours to judge."""
    kind, meta = document["kind"], document["metadata"]
    if kind == "Event":
        if (document.get("source") or {}).get("component") != "controller-manager":
            return ""
        said: Document = {each: document[each] for each in ("type", "reason")}
    else:
        said = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
        if kind in STATUS:
            said["status"] = {key: document.get("status", {}).get(key) for key in STATUS[kind]}
        shown = ("name", "namespace", "labels", "annotations", "finalizers", "deletionTimestamp")
        said["metadata"] = {key: meta[key] for key in shown if meta.get(key)}
        # A fence tells nothing: its only use is to spoil a write that somebody decided earlier.
        said["metadata"]["annotations"] = {k: v for k, v in (meta.get("annotations") or {}).items() if k != FENCE}
        said["owners"] = [_owner(each) for each in meta.get("ownerReferences", [])]
    text = f"{kind} {json.dumps(_without(said), sort_keys=True)}"
    names = re.compile("|".join(re.escape(each) for each in sorted(masks, key=len, reverse=True)))
    text = names.sub(lambda found: masks[found.group()], text)
    text = re.sub(rf"\b(unit|seed|pool|fixed|data)-{turn}\b", r"\1-N", text)
    text = re.sub(rf"\bs\.{turn}\b", "s.N", text)
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


def _owner(reference: Document) -> list[str]:
    """ReplicaSets are not listed: how many old ones are kept depends on what was there before."""
    kind = reference["kind"]
    return [kind] if kind == "ReplicaSet" else [kind, reference["name"], reference["uid"]]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without(each) for key, each in value.items() if key not in CHOSEN_BY_THE_SERVER}
        return {key: each for key, each in kept.items() if each not in (None, {}, [])}
    return [_without(each) for each in value] if isinstance(value, list) else value
