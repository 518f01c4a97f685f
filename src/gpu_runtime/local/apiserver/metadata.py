"""Rules for `metadata` that hold for every kind."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.errors import Cause, bad_request, disallowed, immutable, required, wrong
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.names import (
    NameRule,
    annotation_causes,
    dns_label,
    label_causes,
    name_causes,
    qualified_name,
)
from gpu_runtime.local.apiserver.records import Object

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
STANDARD = ("kubernetes", ORPHAN, FOREGROUND)
_OWNER_FIELDS = ("kind", "name", "uid")
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_SERVER_SET = ("selfLink", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "uid")


def begin(obj: Object, now: str, uid: str) -> None:
    """Sets the fields that only the server sets on a new object."""
    metadata = obj["metadata"]
    for field in _SERVER_SET:
        metadata.pop(field, None)
    metadata["creationTimestamp"] = now
    metadata["uid"] = uid


def place(obj: Object, namespace: str) -> None:
    """Puts the object into the namespace of the request; an object that names another one is refused."""
    if not namespace:
        obj["metadata"].pop("namespace", None)
        return
    found = obj["metadata"].get("namespace", "")
    if not found:
        obj["metadata"]["namespace"] = namespace
    elif found != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def without_repeated_owners(metadata: dict[str, Any]) -> None:
    """Keeps the first of equal owner references."""
    owners = metadata.get("ownerReferences") or []
    kept = [owner for at, owner in enumerate(owners) if owner not in owners[:at]]
    if len(kept) != len(owners):
        metadata["ownerReferences"] = kept


def causes(metadata: dict[str, Any], kind: Kind, rule: NameRule) -> list[Cause]:
    """Everything wrong with an object's metadata."""
    field = "metadata"
    found = []
    if not metadata.get("name"):
        found.append(required(f"{field}.name", "name or generateName is required"))
        if metadata.get("generateName"):
            found += name_causes(rule, {"generateName": metadata["generateName"], "name": "a"}, field)
    else:
        found += name_causes(rule, metadata, field)
    namespace = metadata.get("namespace", "")
    if kind.namespaced:
        if not namespace:
            found.append(required(f"{field}.namespace"))
        else:
            found += [wrong(f"{field}.namespace", namespace, message) for message in dns_label(namespace)]
    found += _content_causes(metadata, field)
    finalizers = metadata.get("finalizers") or []
    found += _finalizer_causes(finalizers, f"{field}.finalizers")
    if not kind.strategy.bare_finalizers:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        bare = [(at, one) for at, one in enumerate(finalizers) if "/" not in one and one not in STANDARD]
        found += [wrong(f"{field}.finalizers[{at}]", one, text) for at, one in bare]
    return found


def _content_causes(metadata: dict[str, Any], field: str) -> list[Cause]:
    found = label_causes(metadata.get("labels") or {}, f"{field}.labels")
    found += annotation_causes(metadata.get("annotations") or {}, f"{field}.annotations")
    return found + _owner_causes(metadata.get("ownerReferences") or [], f"{field}.ownerReferences")


def _owner_causes(owners: list[dict[str, Any]], field: str) -> list[Cause]:
    found = []
    controllers = [owner for owner in owners if owner.get("controller")]
    for owner in owners:
        if not owner.get("apiVersion", "").rpartition("/")[2]:
            found.append(wrong(f"{field}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
        found += [wrong(f"{field}.{name}", "", "must not be empty") for name in _OWNER_FIELDS if not owner.get(name)]
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            found.append(wrong(field, owner, "/v1, Kind=Event is disallowed from being an owner"))
    if len(controllers) > 1:
        names = " and ".join(f"{one['kind']}/{one['name']}" for one in controllers[:2])
        text = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
        found.append(wrong(field, owners, text))
    return found


def _finalizer_causes(finalizers: list[str], field: str) -> list[Cause]:
    found = [wrong(field, one, message) for one in finalizers for message in qualified_name(one)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        found.append(wrong(field, finalizers, f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"))
    return found


def keep_on_update(new: dict[str, Any], old: dict[str, Any]) -> None:
    """Restores fields that no update may change and fields that an update may omit."""
    new.pop("managedFields", None)
    new.pop("selfLink", None)
    if old.get("generation") is not None:
        new["generation"] = old["generation"]
    else:
        new.pop("generation", None)
    if not new.get("uid"):
        new["uid"] = old["uid"]
    new["creationTimestamp"] = old["creationTimestamp"]
    if old.get("deletionTimestamp"):
        new["deletionTimestamp"] = old["deletionTimestamp"]
    if old.get("deletionGracePeriodSeconds") is not None and new.get("deletionGracePeriodSeconds") is None:
        new["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]


def update_causes(new: dict[str, Any], old: dict[str, Any]) -> list[Cause]:
    """Causes for changes of metadata that no update may make."""
    found = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if added:
            shown = ", ".join(f'"{one}"' for one in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers"
            found.append(disallowed("metadata.finalizers", f"{text} []string{{{shown}}}"))
    found += [
        immutable(f"metadata.{field}", new.get(field)) for field in _IMMUTABLE if new.get(field) != old.get(field)
    ]
    return found + _content_causes(new, "metadata")
